//! The kernel language, bound: lowering with a host of Python objects, the C compiler, loading.

use keyprint_codegen::cuda::generate_cuda;
use keyprint_codegen::{Code, Status, generate};
use keyprint_lang::error::Code as ErrorCode;
use keyprint_lang::host::{Constant, FunctionSource, Handle, Host};
use keyprint_lang::types::{Scalar, Shape};
use keyprint_lang::{LangError, Options, Returned, ir, lower, passes};
use keyprint_runtime::library::Library;
use keyprint_runtime::toolchain::{self, Compiler};
use keyprint_runtime::{failure, output, pool, random, table};
use pyo3::exceptions::{PyException, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString, PyTuple};

use crate::compile_time::{FunctionValue, Handles, constant};
use crate::interned::intern;
use crate::{graph_record, hooks, launch};

/// Answers by asking a Python object.
struct PyHost<'py> {
    host: Bound<'py, PyAny>,
    objects: Vec<Bound<'py, PyAny>>,
    /// An exception of the host that is none of the language.
    raised: Option<PyErr>,
}

impl<'py> Handles<'py> for PyHost<'py> {
    fn handle(&mut self, object: Bound<'py, PyAny>) -> Handle {
        if let Some(known) = self.objects.iter().position(|known| known.is(&object)) {
            return known;
        }
        self.objects.push(object);
        self.objects.len() - 1
    }
}

impl<'py> PyHost<'py> {
    /// What Python made of a question: an answer, or an error of the language.
    fn answer<T>(&mut self, answer: PyResult<T>) -> Result<T, LangError> {
        answer.map_err(|error| {
            let py = self.host.py();
            let value = error.value(py);
            let part = |name: &str| {
                value.getattr(name).ok().and_then(|attribute| attribute.extract::<String>().ok())
            };
            if let Some(code) = part("language_code").and_then(|code| ErrorCode::of_name(&code)) {
                let mut lang_error = LangError::new(code, part("message").unwrap_or_default());
                lang_error.hint = part("hint");
                return lang_error;
            }
            self.raised = Some(error);
            LangError::new(ErrorCode::Source, "the host failed")
        })
    }

    fn source(&mut self, handle: Handle) -> PyResult<FunctionSource> {
        let py = self.host.py();
        let function = self.objects[handle].clone();
        let answer = self.host.call_method1(intern!(py, "function"), (function,))?;
        answer.cast::<FunctionValue>()?.get().source(py, self)
    }

    /// Asks for something that may not be there: the answer is a tuple of one value, or an empty one.
    fn ask(&mut self, answer: PyResult<Bound<'py, PyAny>>) -> Result<Option<Constant>, LangError> {
        let read = |this: &mut Self, answer: Bound<'py, PyAny>| -> PyResult<Option<Constant>> {
            let answer = answer.cast_into::<PyTuple>()?;
            if answer.is_empty() { Ok(None) } else { constant(&answer.get_item(0)?, this).map(Some) }
        };
        let answer = answer.and_then(|answer| read(self, answer));
        self.answer(answer)
    }
}

impl Host for PyHost<'_> {
    fn name(&mut self, function: Handle, name: &str) -> Result<Option<Constant>, LangError> {
        let py = self.host.py();
        let answer = self.host.call_method1(intern!(py, "name"), (&self.objects[function], name));
        self.ask(answer)
    }

    fn member(&mut self, object: Handle, name: &str) -> Result<Option<Constant>, LangError> {
        let py = self.host.py();
        let answer = self.host.call_method1(intern!(py, "member"), (&self.objects[object], name));
        self.ask(answer)
    }

    fn item(&mut self, object: Handle, at: &Constant) -> Result<Option<Constant>, LangError> {
        let py = self.host.py();
        let at = match at {
            Constant::Int(at) => at.into_pyobject(py).map(|number| number.into_any().unbind()),
            Constant::Text(at) => Ok(PyString::new(py, at).into_any().unbind()),
            Constant::Bool(at) => Ok(PyBool::new(py, *at).to_owned().into_any().unbind()),
            _ => return Ok(None),
        };
        let Ok(at) = at;
        let answer = self.host.call_method1(intern!(py, "item"), (&self.objects[object], at));
        self.ask(answer)
    }

    fn begin_trial(&mut self) {
        let py = self.host.py();
        let _ = self.host.call_method0(intern!(py, "begin_trial"));
    }

    fn end_trial(&mut self) {
        let py = self.host.py();
        let _ = self.host.call_method0(intern!(py, "end_trial"));
        // Whatever went wrong was of no consequence, but for interrupts.
        let py = self.host.py();
        self.raised = self.raised.take().filter(|raised| !raised.is_instance_of::<PyException>(py));
    }

    fn function(&mut self, function: Handle) -> Result<FunctionSource, LangError> {
        let source = self.source(function);
        self.answer(source)
    }
}

fn scalar(name: &str) -> PyResult<Scalar> {
    Scalar::of_name(name).ok_or_else(|| PyValueError::new_err(format!("no such type: `{name}`")))
}

/// What lowering and generating gave.
#[pyclass(frozen, module = "keyprint._native", get_all)]
pub(crate) struct KernelCode {
    /// The C text.
    text: String,
    /// The IR as it was lowered, and as it was compiled.
    ir: String,
    optimised: String,
    /// What the kernel is called with.
    slots: Vec<String>,
    /// The types of its results, and how they are put together.
    results: Vec<&'static str>,
    returned: Py<PyAny>,
    /// Functions, statement numbers and texts of places that something can be reported from.
    sites: Vec<(String, u32, String)>,
    /// The names of its arrays.
    arrays: Vec<String>,
    /// What may not be meant: message, file, line.
    warnings: Vec<(String, String, u32)>,
    /// The graph of its tasks; nothing if it is none.
    graph: Option<Py<PyAny>>,
    /// How it is launched on a device; nothing on the CPU.
    plan: Option<String>,
}

/// Room for code that is nested as deeply as is allowed, whatever stack the thread has.
const STACK: usize = 32 << 20;

/// Lowers a function for arguments and writes it as C, or as CUDA C++. `host` answers what the text does not say.
#[pyfunction]
#[pyo3(signature = (host, function, arguments, default_int, default_float, debug, graph, checkpoints, is_cuda=false, /))]
#[allow(clippy::too_many_arguments, reason = "Python calls it")]
pub(crate) fn _lower<'py>(
    host: &Bound<'py, PyAny>,
    function: Bound<'py, PyAny>,
    arguments: Vec<Bound<'py, PyAny>>,
    default_int: &str,
    default_float: &str,
    debug: bool,
    graph: bool,
    checkpoints: bool,
    is_cuda: bool,
) -> PyResult<KernelCode> {
    let (default_int, default_float) = (scalar(default_int)?, scalar(default_float)?);
    let options = Options { default_int, default_float, debug, graph, checkpoints };
    stacker::grow(STACK, || lower_here(host, function, arguments, options, is_cuda))
}

fn lower_here<'py>(
    host: &Bound<'py, PyAny>,
    function: Bound<'py, PyAny>,
    arguments: Vec<Bound<'py, PyAny>>,
    options: Options,
    is_cuda: bool,
) -> PyResult<KernelCode> {
    let py = host.py();
    let mut host = PyHost { host: host.clone(), objects: Vec::new(), raised: None };
    let handle = host.handle(function);
    let arguments: Vec<Constant> =
        arguments.iter().map(|argument| constant(argument, &mut host)).collect::<PyResult<_>>()?;
    let lowered = match lower(&mut host, handle, arguments, options) {
        Ok(lowered) => match host.raised.take() {
            Some(raised) => return Err(raised),
            None => lowered,
        },
        Err(error) => return Err(host.raised.take().unwrap_or_else(|| language_error(py, &error))),
    };
    let mut kernel = lowered.kernel;
    let check = |kernel: &ir::Kernel, stage: &str| {
        ir::verify(kernel).map_err(|error| {
            PyRuntimeError::new_err(format!("the compiler made an invalid kernel ({stage}): {error}"))
        })
    };
    check(&kernel, "lowered")?;
    let before = ir::print(&kernel);
    passes::optimise(&mut kernel);
    check(&kernel, "optimised")?;
    let (code, plan) = if is_cuda {
        let cuda = generate_cuda(&kernel);
        let plan =
            serde_json::to_string(&cuda.plan).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        (Code { text: cuda.text, slots: cuda.slots, results: cuda.results }, Some(plan))
    } else {
        (generate(&kernel), None)
    };
    let graph = if kernel.is_graph {
        let members: Vec<_> = lowered
            .members
            .iter()
            .map(|member| member.map(|member| (host.objects[member.handle].clone(), member.is_named)))
            .collect();
        Some(graph_record::of(py, &kernel, &members)?.into_any().unbind())
    } else {
        None
    };
    Ok(KernelCode {
        text: code.text,
        ir: before,
        optimised: ir::print(&kernel),
        slots: code.slots.iter().map(keyprint_codegen::Slot::text).collect(),
        results: code.results.iter().map(|result| result.name()).collect(),
        returned: returned(py, &lowered.result)?.unbind(),
        sites: kernel.sites.into_iter().map(|site| (site.function, site.statement, site.text)).collect(),
        arrays: kernel.arrays.into_iter().map(|array| array.name).collect(),
        warnings: lowered
            .warnings
            .into_iter()
            .map(|warning| (warning.message, warning.frame.file, warning.frame.line))
            .collect(),
        graph,
        plan,
    })
}

/// How results are put together: nothing, a type, `(sizes, type)`, or a list of such.
fn returned<'py>(py: Python<'py>, result: &Returned) -> PyResult<Bound<'py, PyAny>> {
    Ok(match result {
        Returned::Nothing => py.None().into_bound(py),
        Returned::Scalar(scalar) => PyString::new(py, scalar.name()).into_any(),
        Returned::Tensor(Shape::Vector(n), scalar) => ((*n,), scalar.name()).into_pyobject(py)?.into_any(),
        Returned::Tensor(Shape::Matrix(n, m), scalar) => {
            ((*n, *m), scalar.name()).into_pyobject(py)?.into_any()
        }
        Returned::Tuple(all) => {
            let all = all.iter().map(|item| returned(py, item)).collect::<PyResult<Vec<_>>>()?;
            pyo3::types::PyList::new(py, all)?.into_any()
        }
    })
}

/// The exception for an error of the language; the Python half builds it.
fn language_error(py: Python<'_>, error: &LangError) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let trace: Vec<_> = error
            .trace
            .iter()
            .map(|frame| (&frame.function, &frame.file, frame.line, frame.column, frame.width, &frame.text))
            .collect();
        let parts = (error.code.name(), &error.message, error.hint.as_deref(), trace, &error.needs);
        let exception = hooks::MAKE_KERNEL_ERROR.get(py)?.call1(parts)?;
        Ok(PyErr::from_value(exception))
    };
    make().unwrap_or_else(|error| error)
}

/// What a kernel returned: the name of the status, and the number of the array that it is about.
#[pyfunction]
#[pyo3(signature = (status, /))]
pub(crate) fn _read_status(status: i32) -> Option<(&'static str, u32)> {
    Status::of_returned(status).map(|(status, array)| (status.name(), array))
}

/// What the language defines, besides operators and types: names that kernels call.
#[pyfunction]
pub(crate) fn _builtin_names() -> Vec<&'static str> {
    keyprint_lang::lower::builtins::builtin_names()
}

/// The codes of the language's errors, and what they mean.
#[pyfunction]
pub(crate) fn _language_codes() -> Vec<(&'static str, &'static str)> {
    ErrorCode::ALL.iter().map(|code| (code.name(), code.meaning())).collect()
}

/// Finds the C compiler; returns its path and the arguments that come first.
#[pyfunction]
#[pyo3(signature = (variables, path, /))]
pub(crate) fn _find_compiler(
    variables: std::collections::HashMap<String, String>,
    path: &str,
) -> Option<(String, Vec<String>)> {
    let compiler = toolchain::find(&|name| variables.get(name).cloned(), path)?;
    Some((compiler.path.to_string_lossy().into_owned(), compiler.arguments))
}

/// Asks a compiler for its version and the machine that it compiles for.
#[pyfunction]
#[pyo3(signature = (path, arguments, /))]
pub(crate) fn _identify_compiler(
    py: Python<'_>,
    path: String,
    arguments: Vec<String>,
) -> PyResult<(String, String)> {
    let compiler = Compiler { path: path.into(), arguments };
    let identity = py.detach(|| toolchain::identify(&compiler));
    identity
        .map(|identity| (identity.version, identity.machine))
        .map_err(|error| PyOSError::new_err(error.to_string()))
}

/// Compiles C to a shared object.
#[pyfunction]
#[pyo3(signature = (path, arguments, flags, text, /))]
pub(crate) fn _compile_c<'py>(
    py: Python<'py>,
    path: String,
    arguments: Vec<String>,
    flags: Vec<String>,
    text: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let compiler = Compiler { path: path.into(), arguments };
    let compiled = py.detach(|| toolchain::compile(&compiler, &flags, text));
    compiled.map(|bytes| PyBytes::new(py, &bytes)).map_err(|error| PyOSError::new_err(error.to_string()))
}

/// What the processor at hand can do.
#[pyfunction]
pub(crate) fn _processor() -> String {
    toolchain::processor()
}

/// The version of what generated code and runtime know of each other, and a digest of the compiler's own
/// source.
#[pyfunction]
pub(crate) fn _language_version() -> String {
    format!("{}.{}", keyprint_codegen::ABI_VERSION, env!("KEYPRINT_LANGUAGE_DIGEST"))
}

/// A kernel that is loaded; it is unloaded when nothing refers to it.
#[pyclass(frozen, module = "keyprint._native")]
pub(crate) struct LoadedKernel {
    library: Library,
}

#[pymethods]
impl LoadedKernel {
    /// The address of its entry point.
    #[getter]
    fn address(&self) -> usize {
        self.library.entry()
    }
}

/// Loads a kernel from verified bytes, and binds it to the runtime.
#[pyfunction]
#[pyo3(signature = (bytes, /))]
pub(crate) fn _load_kernel(py: Python<'_>, bytes: &[u8]) -> PyResult<LoadedKernel> {
    let (release, take) = (launch::release, launch::take);
    table::set_lock(table::Lock {
        release,
        take,
        should_stop: launch::should_stop,
        is_interrupted: launch::is_interrupted,
    });
    // SAFETY: the object was made by our compiler, or verified to be one that was.
    let library = py.detach(|| unsafe { Library::load(bytes) });
    let library = library.map_err(|error| PyOSError::new_err(format!("cannot load a kernel: {error}")))?;
    Ok(LoadedKernel { library })
}

/// What the last kernel that failed on this thread reported: the site and the numbers.
#[pyfunction]
pub(crate) fn _take_failure(py: Python<'_>) -> PyResult<Option<(u32, Vec<Py<PyAny>>)>> {
    let Some(failed) = failure::take() else { return Ok(None) };
    let number = |value: &failure::Number| -> PyResult<Py<PyAny>> {
        Ok(match value {
            failure::Number::Signed(value) => value.into_pyobject(py)?.into_any().unbind(),
            failure::Number::Unsigned(value) => value.into_pyobject(py)?.into_any().unbind(),
            failure::Number::Float(value) => value.into_pyobject(py)?.into_any().unbind(),
            failure::Number::Bool(value) => PyBool::new(py, *value).to_owned().into_any().unbind(),
        })
    };
    Ok(Some((failed.site, failed.values.iter().map(number).collect::<PyResult<_>>()?)))
}

/// Writes what kernels printed to Python's standard output.
pub(crate) fn show_output(py: Python<'_>) -> PyResult<()> {
    let text = output::take();
    if text.is_empty() {
        return Ok(());
    }
    let stdout = py.import(intern!(py, "sys"))?.getattr(intern!(py, "stdout"))?;
    if !stdout.is_none() {
        stdout.call_method1(intern!(py, "write"), (text,))?;
    }
    Ok(())
}

/// Says how many threads work on a loop: 0 for one for each core.
#[pyfunction]
#[pyo3(signature = (threads, /))]
pub(crate) fn _set_threads(threads: usize) -> PyResult<()> {
    if threads > 4096 {
        return Err(PyTypeError::new_err("that many threads would not help"));
    }
    pool::set_threads(threads);
    Ok(())
}

/// Begins random numbers anew.
#[pyfunction]
#[pyo3(signature = (seed, /))]
pub(crate) fn _seed(seed: u64) {
    random::seed(seed);
}
