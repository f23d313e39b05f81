//! Devices: each with its primary context, which all libraries of a process share.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::driver::sys::{CUcontext, CUdevice, CUmemoryPool};

use crate::driver::{Driver, driver, is_forked};
use crate::error::{CudaError, is_fatal, words};
use crate::graph::stop::Stops;
use crate::graph::way::Costs;
use crate::mail::{Failed, Mailbox, Pending};
use crate::retire::Retired;

/// More devices than this are not looked at.
const MOST_DEVICES: usize = 64;

/// Attributes of devices, as the driver numbers them.
const MULTIPROCESSORS: c_int = 16;
const COOPERATION: c_int = 95;
const MAJOR: c_int = 75;
const MINOR: c_int = 76;

/// The attribute of an address that says which device it belongs to.
const POINTER_DEVICE: c_int = 9;

/// The attribute of a pool that says how much it keeps: everything.
const RELEASE_THRESHOLD: c_int = 4;

/// A device that is in use.
pub struct Device {
    /// Its number among those that are visible.
    pub ordinal: u32,
    /// What it is called.
    pub name: String,
    /// Its compute capability.
    pub capability: (u32, u32),
    /// How many multiprocessors it has.
    pub multiprocessors: u32,
    pub(crate) driver: &'static Driver,
    pub(crate) context: CUcontext,
    pool: CUmemoryPool,
    /// The code after which nothing works any more; 0 if there was none.
    lost: AtomicU32,
    /// Launches that may have failed, and of which nobody has asked yet.
    pub(crate) pending: Mutex<Vec<Pending>>,
    /// What went wrong first, if somebody who could not raise it has found out.
    failed: Mutex<Option<Failed>>,
    /// Mailboxes that are not in use.
    pub(crate) mailboxes: Mutex<Vec<Mailbox>>,
    /// How many launches were made on streams of others, and up to which of them everything was waited for.
    pub(crate) elsewhere: AtomicU64,
    pub(crate) waited_elsewhere: AtomicU64,
    /// What is given back later.
    pub(crate) retired: Mutex<Vec<Retired>>,
    /// Whether a thread waits for everything, so that it can be given back.
    pub(crate) is_retiring: AtomicBool,
    /// Whether others know addresses of arrays of our own: they may be at work on them.
    pub(crate) is_shared: AtomicBool,
    /// Whether blocks of one launch can wait for each other.
    has_cooperation: bool,
    /// Which launches of graphs were called off.
    pub(crate) stops: Stops,
    /// What ways to launch graphs cost here.
    costs: Mutex<Option<Costs>>,
}

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// A device that the calling thread uses. What it used before is used again afterwards, if there was any: other libraries
/// go by it.
#[must_use]
pub struct Entered<'d> {
    device: &'d Device,
    before: CUcontext,
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.before.is_null() {
            // SAFETY: it was current when the device was entered, and whoever made it keeps it.
            unsafe { (self.device.driver.set_context)(self.before) };
        }
    }
}

static DEVICES: [OnceLock<Device>; MOST_DEVICES] = [const { OnceLock::new() }; MOST_DEVICES];
static OPENING: Mutex<()> = Mutex::new(());

/// How many devices there are.
///
/// # Errors
///
/// If there is no driver.
pub fn count() -> Result<u32, CudaError> {
    let driver = driver()?;
    let mut count = 0;
    // SAFETY: the driver sets the number.
    check(driver, "counting devices", unsafe { (driver.count_devices)(&raw mut count) })?;
    Ok(count.max(0) as u32)
}

/// The compute capability of a device, which needs no context.
///
/// # Errors
///
/// If there is no such device.
pub fn capability(ordinal: u32) -> Result<(u32, u32), CudaError> {
    let (driver, handle) = handle(ordinal)?;
    capability_of(driver, handle)
}

/// The device that an address belongs to.
///
/// # Errors
///
/// If it belongs to none.
pub fn of_address(address: u64) -> Result<u32, CudaError> {
    let driver = driver()?;
    let mut ordinal: c_int = 0;
    // SAFETY: the driver sets the number.
    let code = unsafe { (driver.pointer_attribute)((&raw mut ordinal).cast(), POINTER_DEVICE, address) };
    check(driver, "asking whose memory it is", code)?;
    Ok(ordinal.max(0) as u32)
}

/// Name and bytes of memory of a device, which need no context.
///
/// # Errors
///
/// If there is no such device.
pub fn describe(ordinal: u32) -> Result<(String, u64), CudaError> {
    let (driver, handle) = handle(ordinal)?;
    let mut bytes = 0;
    // SAFETY: the driver sets the number.
    check(driver, "asking for memory", unsafe { (driver.device_memory)(&raw mut bytes, handle) })?;
    Ok((name_of(driver, handle)?, bytes as u64))
}

fn handle(ordinal: u32) -> Result<(&'static Driver, CUdevice), CudaError> {
    let driver = driver()?;
    let count = count()?;
    if ordinal >= count || ordinal as usize >= MOST_DEVICES {
        return Err(CudaError::NoSuchDevice { ordinal, count });
    }
    let mut handle = 0;
    // SAFETY: the driver sets the handle.
    check(driver, "opening a device", unsafe { (driver.get_device)(&raw mut handle, ordinal as c_int) })?;
    Ok((driver, handle))
}

fn attribute(driver: &Driver, handle: CUdevice, which: c_int) -> Result<u32, CudaError> {
    let mut value = 0;
    // SAFETY: the driver sets the number.
    let code = unsafe { (driver.device_attribute)(&raw mut value, which, handle) };
    check(driver, "asking for an attribute of a device", code)?;
    Ok(value.max(0) as u32)
}

fn capability_of(driver: &Driver, handle: CUdevice) -> Result<(u32, u32), CudaError> {
    Ok((attribute(driver, handle, MAJOR)?, attribute(driver, handle, MINOR)?))
}

fn name_of(driver: &Driver, handle: CUdevice) -> Result<String, CudaError> {
    let mut name = [0 as c_char; 256];
    // SAFETY: there is as much room as is said.
    let code = unsafe { (driver.device_name)(name.as_mut_ptr(), name.len() as c_int, handle) };
    check(driver, "asking for the name of a device", code)?;
    let bytes: Vec<u8> = name.iter().take_while(|letter| **letter != 0).map(|letter| *letter as u8).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Makes an error of a code, if it is one.
pub(crate) fn check(driver: &Driver, what: &str, code: u32) -> Result<(), CudaError> {
    if code == 0 { Ok(()) } else { Err(CudaError::of(driver, what, code)) }
}

/// A device, with its context.
///
/// # Errors
///
/// If there is no such device, or its context cannot be had.
pub fn device(ordinal: u32) -> Result<&'static Device, CudaError> {
    if is_forked() {
        return Err(CudaError::Forked);
    }
    if let Some(device) = DEVICES.get(ordinal as usize).and_then(OnceLock::get) {
        return Ok(device);
    }
    let _guard = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    let (driver, handle) = handle(ordinal)?;
    if let Some(device) = DEVICES[ordinal as usize].get() {
        return Ok(device);
    }
    let mut context = std::ptr::null_mut();
    // SAFETY: the driver sets the handle.
    let code = unsafe { (driver.retain_primary)(&raw mut context, handle) };
    check(driver, "making the context of a device", code)?;
    let mut pool = std::ptr::null_mut();
    let mut everything = u64::MAX;
    // SAFETY: the driver sets the handle; the attribute is a number of 64 bits.
    unsafe {
        check(driver, "asking for memory", (driver.default_pool)(&raw mut pool, handle))?;
        let code = (driver.set_pool)(pool, RELEASE_THRESHOLD, (&raw mut everything).cast());
        check(driver, "asking for memory", code)?;
    }
    let device = Device {
        ordinal,
        name: name_of(driver, handle)?,
        capability: capability_of(driver, handle)?,
        multiprocessors: attribute(driver, handle, MULTIPROCESSORS)?.max(1),
        driver,
        context,
        pool,
        lost: AtomicU32::new(0),
        pending: Mutex::new(Vec::new()),
        failed: Mutex::new(None),
        mailboxes: Mutex::new(Vec::new()),
        elsewhere: AtomicU64::new(0),
        waited_elsewhere: AtomicU64::new(0),
        retired: Mutex::new(Vec::new()),
        is_retiring: AtomicBool::new(false),
        is_shared: AtomicBool::new(false),
        has_cooperation: attribute(driver, handle, COOPERATION).is_ok_and(|has| has != 0),
        stops: Stops::default(),
        costs: Mutex::new(None),
    };
    Ok(DEVICES[ordinal as usize].get_or_init(|| device))
}

/// Devices that are in use.
pub fn open_devices() -> impl Iterator<Item = &'static Device> {
    DEVICES.iter().filter_map(OnceLock::get)
}

impl Device {
    /// Has the calling thread use this device until what is returned is dropped: a fresh thread has none, and libraries
    /// switch.
    ///
    /// # Errors
    ///
    /// If the context is lost, or the process was forked.
    #[inline]
    pub fn enter(&self) -> Result<Entered<'_>, CudaError> {
        if is_forked() {
            return Err(CudaError::Forked);
        }
        if self.lost.load(Ordering::Relaxed) != 0 {
            return Err(self.lost_error());
        }
        let mut current = std::ptr::null_mut();
        // SAFETY: the driver sets the handle.
        let code = unsafe { (self.driver.current_context)(&raw mut current) };
        if code == 0 && current == self.context {
            return Ok(Entered { device: self, before: std::ptr::null_mut() });
        }
        self.switch(current)
    }

    /// Takes note that others are told where an array of our own is: they may work on it on streams of theirs.
    pub fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// Whether the calling thread uses this device, which works.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        let mut current = std::ptr::null_mut();
        // SAFETY: the driver sets the handle.
        let code = unsafe { (self.driver.current_context)(&raw mut current) };
        code == 0 && current == self.context && !is_forked() && self.lost.load(Ordering::Relaxed) == 0
    }

    #[cold]
    fn switch(&self, before: CUcontext) -> Result<Entered<'_>, CudaError> {
        // SAFETY: the context is never released.
        self.check("using a device", unsafe { (self.driver.set_context)(self.context) })?;
        Ok(Entered { device: self, before })
    }

    /// Makes an error of a code, if it is one; takes note if nothing works any more.
    #[inline]
    pub(crate) fn check(&self, what: &str, code: u32) -> Result<(), CudaError> {
        if code == 0 { Ok(()) } else { Err(self.error(what, code)) }
    }

    #[cold]
    fn error(&self, what: &str, code: u32) -> CudaError {
        if is_fatal(code) {
            let _ = self.lost.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
            return self.lost_error();
        }
        CudaError::of(self.driver, what, code)
    }

    #[cold]
    fn lost_error(&self) -> CudaError {
        let code = self.lost.load(Ordering::Relaxed);
        let (name, text) = words(self.driver, code);
        CudaError::Lost { device: self.ordinal, code, name, text }
    }

    pub(crate) fn has_cooperation(&self) -> bool {
        self.has_cooperation
    }

    /// What ways to launch graphs cost here: as was measured, or about what is usual.
    #[must_use]
    pub fn costs(&self) -> Costs {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_default()
    }

    /// Says what they cost.
    pub fn set_costs(&self, costs: Costs) {
        *self.costs.lock().unwrap_or_else(PoisonError::into_inner) = Some(costs);
    }

    /// Gives memory back that nothing uses.
    pub(crate) fn trim(&'static self) {
        let launched = self.elsewhere.load(Ordering::Acquire);
        // SAFETY: no arguments.
        if unsafe { (self.driver.synchronize)() } == 0 {
            self.waited_elsewhere.fetch_max(launched, Ordering::AcqRel);
            self.give_back_retired();
        }
        // SAFETY: the pool belongs to the device, which is never released.
        unsafe {
            let _ = (self.driver.trim_pool)(self.pool, 0);
        }
    }

    /// How many bytes are free, and how many there are.
    ///
    /// # Errors
    ///
    /// If the context is lost.
    pub fn free_memory(&self) -> Result<(u64, u64), CudaError> {
        let _entered = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the driver sets the numbers.
        self.check("asking for memory", unsafe { (self.driver.free_memory)(&raw mut free, &raw mut total) })?;
        Ok((free as u64, total as u64))
    }

    /// Waits for everything that was launched here.
    ///
    /// # Errors
    ///
    /// If the device failed, or waiting was called off. What kernels said went wrong is returned: the first of it.
    pub fn wait(&'static self) -> Result<Option<Failed>, CudaError> {
        let _entered = self.enter()?;
        // What is launched while this waits is for the next one: it may not be done.
        let pending = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        if let Err(error) = self.wait_for_all() {
            self.pending.lock().unwrap_or_else(PoisonError::into_inner).splice(0..0, pending);
            return Err(error);
        }
        let failed = first_failure(pending);
        let mut kept = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = failed;
        }
        Ok(kept.take())
    }

    /// Whether something that was launched may have failed, and nobody has asked yet.
    #[must_use]
    pub fn may_have_failed(&self) -> bool {
        !self.pending.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
            || self.failed.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Waits, and keeps what went wrong for whoever waits next: so many launches may have failed that there is no room
    /// for more.
    pub(crate) fn settle(&'static self) -> Result<(), CudaError> {
        if let Some(failed) = self.wait()? {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(failed);
        }
        Ok(())
    }
}

/// What went wrong first in launches that are done.
fn first_failure(pending: Vec<Pending>) -> Option<Failed> {
    let mut first = None;
    for launch in pending {
        let failed = launch.failed();
        if first.is_none() {
            first = failed;
        }
    }
    first
}
