//! CUDA, bound: devices, NVRTC, programs that are loaded.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use keyprint_codegen::Status;
use keyprint_codegen::cuda::{CONDITIONS, LaunchPlan, probe};
use keyprint_cuda::graph::measure::measure;
use keyprint_cuda::graph::way::{Asked, Cost, Costs};
use keyprint_cuda::nvrtc::{self, Nvrtc};
use keyprint_cuda::program::Program;
use keyprint_cuda::{CudaError, device, driver, mail, profile, wait};
use keyprint_runtime::{failure, output};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::hooks;
use crate::interned::intern;
use crate::language::show_output;
use crate::launch;

/// What a library that was opened is known by.
static OPEN: Mutex<Option<HashMap<PathBuf, Arc<Nvrtc>>>> = Mutex::new(None);

/// The exception for trouble with a device; the Python half builds it.
#[cold]
pub(crate) fn device_error(py: Python<'_>, error: &CudaError) -> PyErr {
    if matches!(error, CudaError::Interrupted) {
        // What a handler raised.
        return PyErr::take(py).unwrap_or_else(|| PyKeyboardInterrupt::new_err(()));
    }
    let code = match error {
        CudaError::NoDriver { .. } | CudaError::OldDriver { .. } => "no-driver",
        CudaError::NoDevice | CudaError::NoSuchDevice { .. } => "no-device",
        CudaError::OutOfMemory { .. } => "out-of-memory",
        CudaError::Lost { .. } => "context-lost",
        CudaError::Forked => "forked",
        CudaError::NoNvrtc(_) => "no-compiler",
        CudaError::Compiler(_) => "compiler-failed",
        CudaError::CalledOff => "called-off",
        CudaError::Driver { .. } | CudaError::Other(_) | CudaError::Interrupted => "device-failed",
    };
    let make = || -> PyResult<PyErr> {
        let parts = (code, error.to_string(), error.hint());
        Ok(PyErr::from_value(hooks::MAKE_DEVICE_ERROR.get(py)?.call1(parts)?))
    };
    make().unwrap_or_else(|error| error)
}

/// What a check that failed on a device raises: whoever made the code says.
#[cold]
pub(crate) fn failed(py: Python<'_>, failed: mail::Failed) -> PyErr {
    let owner = failed.owner.downcast::<Py<PyAny>>();
    failure::keep(failed.failure);
    let make = || -> PyResult<PyErr> {
        let Ok(owner) = owner else { return Err(PyValueError::new_err("a launch of nobody")) };
        let error = owner.bind(py).call_method1(intern!(py, "error_of"), (Status::Failed as i32,))?;
        Ok(PyErr::from_value(error))
    };
    make().unwrap_or_else(|error| error)
}

/// Waits for a device; raises what went wrong on it.
pub(crate) fn wait_for_device(py: Python<'_>, device: &'static device::Device) -> PyResult<()> {
    raised(py, py.detach(|| device.wait()))
}

/// What came of waiting for a device.
fn raised(py: Python<'_>, outcome: Result<Option<mail::Failed>, CudaError>) -> PyResult<()> {
    if output::is_pending() {
        // Of a launch that was no longer waited for.
        show_output(py)?;
    }
    match outcome.map_err(|error| device_error(py, &error))? {
        Some(failure) => Err(failed(py, failure)),
        None => Ok(()),
    }
}

/// A device, with its context. Whoever waits for it can be interrupted.
pub(crate) fn open_device(ordinal: u32) -> Result<&'static device::Device, CudaError> {
    wait::set_go_on(go_on);
    device::device(ordinal)
}

/// Whether a thread that waits for a device, without the interpreter's lock, is to go on: unless a handler of a signal
/// raises something, which stays where Python looks for it.
fn go_on() -> bool {
    if launch::is_running() {
        return !launch::is_interrupted();
    }
    if !launch::is_main_thread() {
        return true;
    }
    Python::attach(|py| match py.check_signals() {
        Ok(()) => true,
        Err(raised) => {
            raised.restore(py);
            false
        }
    })
}

/// Wait until everything is done that kernels and arrays of ours were launched for, and raise what went wrong there.
#[pyfunction]
pub(crate) fn sync(py: Python<'_>) -> PyResult<()> {
    let mut first = Ok(());
    for device in device::open_devices() {
        let outcome = py.detach(|| device.wait());
        let is_interrupted = matches!(outcome, Err(CudaError::Interrupted));
        let outcome = raised(py, outcome);
        if is_interrupted {
            return outcome;
        }
        if first.is_ok() {
            first = outcome;
        }
    }
    first
}

/// Number, name, compute capability and bytes of a device.
type DeviceText = (u32, String, (u32, u32), u64);

/// The version of the driver, and what devices it finds; none of them is brought up.
#[pyfunction]
pub(crate) fn _cuda_devices(py: Python<'_>) -> PyResult<(i32, Vec<DeviceText>)> {
    let read = || {
        let version = driver::driver()?.version;
        let all = (0..device::count()?).map(|ordinal| {
            let (name, bytes) = device::describe(ordinal)?;
            Ok((ordinal, name, device::capability(ordinal)?, bytes))
        });
        Ok((version, all.collect::<Result<_, CudaError>>()?))
    };
    read().map_err(|error| device_error(py, &error))
}

/// The compute capability of a device, which is not brought up.
#[pyfunction]
#[pyo3(signature = (ordinal, /))]
pub(crate) fn _cuda_capability(py: Python<'_>, ordinal: u32) -> PyResult<(u32, u32)> {
    py.detach(|| device::capability(ordinal)).map_err(|error| device_error(py, &error))
}

/// Finds NVRTC, with these environment variables; packages are looked for in directories that modules are found in.
#[pyfunction]
#[pyo3(signature = (variables, modules, /))]
pub(crate) fn _nvrtc_find(variables: HashMap<String, String>, modules: Vec<PathBuf>) -> Option<String> {
    let path = nvrtc::find(&|name| variables.get(name).cloned(), &modules)?;
    Some(path.to_string_lossy().into_owned())
}

/// Begins to time launches on devices.
#[pyfunction]
pub(crate) fn _begin_profile() {
    profile::begin();
}

/// Ends it, and returns the name of the kernel and the milliseconds of each launch.
#[pyfunction]
pub(crate) fn _end_profile(py: Python<'_>) -> PyResult<Vec<(String, f32)>> {
    let timed = py.detach(profile::end).map_err(|error| device_error(py, &error))?;
    Ok(timed.into_iter().map(|launch| (launch.name, launch.milliseconds)).collect())
}

fn open(py: Python<'_>, path: &Path) -> PyResult<Arc<Nvrtc>> {
    let known =
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().get(path).cloned();
    if let Some(known) = known {
        return Ok(known);
    }
    let opened = py.detach(|| Nvrtc::open(path)).map_err(|error| device_error(py, &error))?;
    let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Arc::clone(all.get_or_insert_default().entry(path.to_owned()).or_insert(Arc::new(opened))))
}

/// The version of a library of NVRTC.
#[pyfunction]
#[pyo3(signature = (path, /))]
pub(crate) fn _nvrtc_version(py: Python<'_>, path: PathBuf) -> PyResult<(i32, i32)> {
    Ok(open(py, &path)?.version)
}

/// Compiles CUDA C++; returns code for a device, and what it was made of.
#[pyfunction]
#[pyo3(signature = (path, text, options, /))]
pub(crate) fn _nvrtc_compile<'py>(
    py: Python<'py>,
    path: PathBuf,
    text: &str,
    options: Vec<String>,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let nvrtc = open(py, &path)?;
    let compiled = py.detach(|| nvrtc.compile(text, &options)).map_err(|error| device_error(py, &error))?;
    Ok((PyBytes::new(py, &compiled.cubin), PyBytes::new(py, &compiled.ptx)))
}

/// A kernel that is loaded on a device; it is unloaded when nothing refers to it.
#[pyclass(frozen, module = "keyprint._native")]
pub(crate) struct DeviceProgram {
    pub(crate) program: Arc<Program>,
}

#[pymethods]
impl DeviceProgram {
    fn __repr__<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        PyString::new(py, &format!("<DeviceProgram on cuda:{}>", self.program.device.ordinal))
    }
}

/// Code that decides about loops of graphs on a device, as CUDA C++: the same for all kernels.
#[pyfunction]
pub(crate) fn _graph_conditions() -> &'static str {
    CONDITIONS
}

/// Loads a kernel from verified bytes, with the plan that came with it. For a graph, `conditions` is what decides about
/// its loops, and `way` the only way in which it is launched.
#[pyfunction]
#[pyo3(signature = (name, code, conditions, plan, ordinal, way, /))]
pub(crate) fn _load_program(
    py: Python<'_>,
    name: &str,
    code: &[u8],
    conditions: Option<&[u8]>,
    plan: &str,
    ordinal: u32,
    way: Option<&str>,
) -> PyResult<DeviceProgram> {
    let plan: LaunchPlan = serde_json::from_str(plan).map_err(|error| {
        PyValueError::new_err(format!("what was kept with a kernel is unreadable: {error}"))
    })?;
    let way = way
        .map(|name| Asked::of_name(name).ok_or_else(|| PyValueError::new_err("no such way")))
        .transpose()?;
    let program = py.detach(|| Program::load(open_device(ordinal)?, name, code, conditions, plan, way));
    let program = program.map_err(|error| device_error(py, &error))?;
    Ok(DeviceProgram { program: Arc::new(program) })
}

/// The way of a launch, why, blocks and threads, and what ways were expected to take.
type ChoiceText = (&'static str, &'static str, (u32, u32), [Option<f64>; 4]);

/// In which way the last launch of a graph was launched; nothing if there was none.
#[pyfunction]
#[pyo3(signature = (program, /))]
pub(crate) fn _graph_choice(program: &DeviceProgram) -> Option<ChoiceText> {
    let choice = program.program.last_choice()?;
    Some((choice.way.name(), choice.why.words(), choice.grid, choice.expected))
}

/// The ways in which a graph cannot be launched here, and why.
#[pyfunction]
#[pyo3(signature = (program, /))]
pub(crate) fn _missing_ways(program: &DeviceProgram) -> Vec<(&'static str, &'static str)> {
    program.program.missing_ways().into_iter().map(|(way, why)| (way.name(), why.words())).collect()
}

/// What each way to launch graphs costs, in nanoseconds: a launch, a task, work that takes a CPU a nanosecond.
type CostsText = [(f64, f64, f64); 4];

/// A graph that is timed, as CUDA C++.
#[pyfunction]
pub(crate) fn _graph_probe() -> String {
    probe().text
}

/// Times the ways to launch graphs on a device, and returns what they cost. `code` is of `_graph_probe`, `conditions` of
/// `_graph_conditions`.
#[pyfunction]
#[pyo3(signature = (ordinal, code, conditions, /))]
pub(crate) fn _measure_graphs(
    py: Python<'_>,
    ordinal: u32,
    code: &[u8],
    conditions: &[u8],
) -> PyResult<CostsText> {
    let costs = py.detach(|| measure(open_device(ordinal)?, &probe(), code, conditions));
    let costs = costs.map_err(|error| device_error(py, &error))?;
    Ok(costs.0.map(|cost| (cost.launch, cost.task, cost.work)))
}

/// Says what ways to launch graphs cost on a device.
#[pyfunction]
#[pyo3(signature = (ordinal, costs, /))]
pub(crate) fn _set_graph_costs(py: Python<'_>, ordinal: u32, costs: CostsText) -> PyResult<()> {
    let device = py.detach(|| open_device(ordinal)).map_err(|error| device_error(py, &error))?;
    device.set_costs(Costs(costs.map(|(launch, task, work)| Cost { launch, task, work })));
    Ok(())
}
