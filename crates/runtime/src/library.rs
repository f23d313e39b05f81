//! Compiled kernels in memory: loaded from bytes, and unloaded when nothing can run them any more.
//!
//! The bytes go into a sealed anonymous file, or a private one where there is none, which the dynamic loader maps; no
//! descriptor stays open. Loaders know objects by the path that they were loaded from, and a path through a descriptor's
//! number comes back with the number. So each load spells its path in its own way.

use std::ffi::{CStr, CString, c_void};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::table::{self, Table};

/// A kernel that is loaded.
pub struct Library {
    handle: NonNull<c_void>,
    entry: usize,
}

// SAFETY: the handle is only used to unload it, and the code belongs to no thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Loads a kernel and binds it to the runtime.
    ///
    /// # Errors
    ///
    /// If there is no room for it, or it is none.
    ///
    /// # Safety
    ///
    /// The bytes are what our compiler made of a kernel: loading it runs nothing, and its functions have the types that
    /// the runtime knows.
    pub unsafe fn load(bytes: &[u8]) -> io::Result<Self> {
        match anonymous(bytes) {
            // SAFETY: as the caller promises.
            Ok(file) => unsafe { Self::open(&own_spelling(file.as_raw_fd())) },
            Err(_) => {
                let directory = tempfile::Builder::new().prefix("keyprint-").tempdir()?;
                let path = directory.path().join(format!("{}.so", next()));
                std::fs::write(&path, bytes)?;
                // SAFETY: as the caller promises.
                unsafe { Self::open(&text_of(&path)?) }
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Self::load`].
    unsafe fn open(path: &CStr) -> io::Result<Self> {
        // SAFETY: as the caller promises; the path ends in zero.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let Some(handle) = NonNull::new(handle) else {
            // SAFETY: something went wrong, so there is a text.
            let text = unsafe { CStr::from_ptr(libc::dlerror()) };
            return Err(io::Error::other(text.to_string_lossy().into_owned()));
        };
        let mut library = Self { handle, entry: 0 };
        // SAFETY: loaded above.
        let [bind, entry] =
            [c"kp_bind", c"kp_kernel"].map(|name| unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) });
        if bind.is_null() || entry.is_null() {
            return Err(io::Error::other("it has no entry point"));
        }
        // SAFETY: as the caller promises, it has this type.
        unsafe {
            let bind: unsafe extern "C" fn(*const Table) = std::mem::transmute(bind);
            bind(table::table());
        }
        library.entry = entry as usize;
        Ok(library)
    }

    /// The address of its entry point, for as long as this lives.
    #[must_use]
    pub fn entry(&self) -> usize {
        self.entry
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: whoever calls what is inside holds this.
        unsafe { libc::dlclose(self.handle.as_ptr()) };
    }
}

fn next() -> u64 {
    // Not 0: plain paths are those that programs ask for.
    static LOADS: AtomicU64 = AtomicU64::new(1);
    LOADS.fetch_add(1, Ordering::Relaxed)
}

/// An anonymous file that nobody can change any more.
#[cfg(target_os = "linux")]
fn anonymous(bytes: &[u8]) -> io::Result<std::fs::File> {
    // SAFETY: the name ends in zero.
    let number =
        unsafe { libc::memfd_create(c"keyprint".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and owned by nobody else.
    let mut file = unsafe { std::fs::File::from_raw_fd(number) };
    file.write_all(bytes)?;
    let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    // SAFETY: of a file of our own.
    if unsafe { libc::fcntl(number, libc::F_ADD_SEALS, seals) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // Without `/proc` there is no path to it.
    std::fs::metadata(format!("/proc/self/fd/{number}"))?;
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
fn anonymous(_bytes: &[u8]) -> io::Result<std::fs::File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A path to a descriptor that no other load has: the number of the load, in ways to write a slash.
fn own_spelling(descriptor: i32) -> CString {
    let mut path = String::from("/proc/self/fd");
    let mut rest = next();
    while rest > 0 {
        path.push_str(if rest & 1 == 1 { "/." } else { "//." });
        rest >>= 1;
    }
    path.push_str(&format!("/{descriptor}"));
    CString::new(path).expect("there is no zero in it")
}

fn text_of(path: &Path) -> io::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_differ_and_lead_to_the_same() {
        let file = anonymous(b"bytes").unwrap();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..300 {
            let path = own_spelling(file.as_raw_fd());
            assert_eq!(std::fs::read(path.to_str().unwrap()).unwrap(), b"bytes");
            assert!(seen.insert(path));
        }
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        // SAFETY: nothing is loaded of it.
        assert!(unsafe { Library::load(b"no object") }.is_err());
    }
}
