//! Where a torch tensor keeps whether it is tracked, and whether it is meant with another sign.
//!
//! Both questions have methods, which take longer than the rest of a launch together. What they look at is private, so a
//! probe makes tensors of every kind and looks for the words that differ as the answers do; if that is not exactly one
//! word for each, tensors are asked by their methods. A tensor of which the words say nothing special is plain; any other
//! is asked, too: the words are never the reason to refuse one, nor to take one that its methods would refuse.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

/// Where the words are.
#[derive(Clone, Copy)]
pub(super) struct TorchLayout {
    /// In the Python object: the tensor itself.
    inner: usize,
    /// In the tensor: what autograd knows of it; nothing for most.
    tracking: usize,
    /// In the tensor: what kinds of tensor it is, and the one that is meant with another sign.
    kinds: usize,
    negative: u64,
}

/// No tensor is smaller than this, and none that was seen keeps its kinds behind this.
const LOOKED_AT: usize = 192;

/// Where the tensor itself may be in its Python object: behind the head, or behind a flag.
const PLACES: [usize; 2] = [16, 24];

impl TorchLayout {
    /// The layout of torch's own tensors; nothing for any other class, or if it is not known.
    pub(super) fn of(class: &Bound<'_, PyType>) -> Option<Self> {
        static KNOWN: PyOnceLock<Option<TorchLayout>> = PyOnceLock::new();
        let py = class.py();
        let torch = py.import("sys").ok()?.getattr("modules").ok()?.cast_into::<PyDict>().ok()?;
        let torch = torch.get_item("torch").ok()??;
        if !torch.getattr("Tensor").ok()?.is(class) {
            return None;
        }
        if KNOWN.get(py).is_none() {
            let layout = probe(&torch).ok().flatten();
            let _ = KNOWN.set(py, layout);
        }
        *KNOWN.get(py)?
    }

    /// Whether a tensor is certainly neither tracked nor meant with another sign.
    ///
    /// # Safety
    ///
    /// `tensor` is a live instance of `torch.Tensor` itself.
    #[inline]
    pub(super) unsafe fn is_plain(self, tensor: *mut ffi::PyObject) -> bool {
        // SAFETY: as the caller promises, and the probe has read these places of such tensors.
        unsafe {
            let inner = word(tensor as usize, self.inner) as usize;
            word(inner, self.tracking) == 0 && word(inner, self.kinds) & self.negative == 0
        }
    }
}

/// # Safety
///
/// There is a word there.
unsafe fn word(base: usize, at: usize) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { ((base + at) as *const u64).read() }
}

/// Makes tensors, and looks for the words.
fn probe(torch: &Bound<'_, PyAny>) -> PyResult<Option<TorchLayout>> {
    let py = torch.py();
    let mut samples = Vec::new();
    for (shape, dtype) in
        [(vec![3], "float32"), (vec![2, 2], "float64"), (vec![], "float32"), (vec![5, 1], "float16")]
    {
        let options = PyDict::new(py);
        options.set_item("dtype", torch.getattr(dtype)?)?;
        let plain = torch.call_method("ones", (shape.clone(),), Some(&options))?;
        let negative = torch.call_method1("_neg_view", (&plain,))?;
        options.set_item("requires_grad", true)?;
        let tracked = torch.call_method("ones", (shape,), Some(&options))?;
        let says = |tensor: &Bound<'_, PyAny>| -> PyResult<(bool, bool)> {
            Ok((tensor.call_method0("is_neg")?.is_truthy()?, tensor.getattr("requires_grad")?.is_truthy()?))
        };
        let expected = [(false, false), (true, false), (false, true)];
        if [says(&plain)?, says(&negative)?, says(&tracked)?] != expected {
            return Ok(None);
        }
        samples.push([plain, negative, tracked]);
    }
    let is_inner = |tensor: &Bound<'_, PyAny>, at: usize| -> PyResult<bool> {
        let inner: usize = tensor.getattr("_cdata")?.extract()?;
        // SAFETY: a tensor is an object with more than its head: these words are there.
        let found = unsafe { word(tensor.as_ptr() as usize, at) };
        Ok(inner != 0 && found as usize == inner)
    };
    let mut inner = None;
    for at in PLACES {
        let mut fits = true;
        for tensor in samples.iter().flatten() {
            fits &= is_inner(tensor, at)?;
        }
        if fits {
            inner = Some(at);
            break;
        }
    }
    let Some(inner) = inner else { return Ok(None) };
    let words = |at: usize| -> Vec<[u64; 3]> {
        // SAFETY: what was just found to be the tensor, which is at least as large.
        let read =
            |tensor: &Bound<'_, PyAny>| unsafe { word(word(tensor.as_ptr() as usize, inner) as usize, at) };
        samples
            .iter()
            .map(|[plain, negative, tracked]| [read(plain), read(negative), read(tracked)])
            .collect()
    };
    let (mut tracking, mut kinds) = (None, None);
    for at in (8..LOOKED_AT).step_by(8) {
        let all = words(at);
        if tracking.is_none() && all.iter().all(|[plain, _, tracked]| *plain == 0 && *tracked != 0) {
            tracking = Some(at);
        }
        let bit = all[0][0] ^ all[0][1];
        let is_kind = |[plain, negative, tracked]: &[u64; 3]| {
            plain ^ negative == bit && plain & bit == 0 && tracked & bit == 0
        };
        if bit.is_power_of_two() && all.iter().all(is_kind) {
            kinds = Some((at, bit));
            // What is behind it may not be the tensor's any more.
            break;
        }
    }
    Ok(match (tracking, kinds) {
        (Some(tracking), Some((kinds, negative))) => Some(TorchLayout { inner, tracking, kinds, negative }),
        _ => None,
    })
}
