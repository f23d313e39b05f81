//! `keyprint._native`: the native half of the Python package.
//!
//! The Python half (`python/keyprint`) holds the documented names; this one holds the work: the
//! walk over Python values ([`walk`]), and the classes that cross the border.

mod command_line;
mod compile_time;
mod config;
mod cuda;
mod describe;
mod entry;
mod explain;
mod failure;
mod fingerprint;
mod fingerprinter;
mod flight;
mod fold;
mod graph_record;
mod guard;
mod hooks;
mod interned;
mod jit;
mod key;
mod language;
mod launch;
mod layout;
mod member;
mod ndarray;
mod own_array;
mod own_array_dlpack;
mod own_array_memory;
mod plain;
mod source;
mod store;
mod walk;

use pyo3::prelude::*;

/// The native half of `keyprint`.
// The walk relies on the interpreter lock; a free-threaded interpreter takes it for this module.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::command_line::main;
    #[pymodule_export]
    use crate::compile_time::{AnnotationValue, CompileTimeValue, FunctionValue, ParameterValue};
    #[pymodule_export]
    use crate::cuda::{
        _begin_profile, _cuda_capability, _cuda_devices, _end_profile, _graph_choice, _graph_conditions,
        _graph_probe, _load_program, _measure_graphs, _missing_ways, _nvrtc_compile, _nvrtc_find,
        _nvrtc_version, _set_graph_costs, DeviceProgram, sync,
    };
    #[pymodule_export]
    use crate::describe::Description;
    #[pymodule_export]
    use crate::entry::PyEntry;
    #[pymodule_export]
    use crate::explain::{Difference, Explanation};
    #[pymodule_export]
    use crate::fingerprint::{_durable_fingerprint, _process_local_fingerprint, PyFingerprint};
    #[pymodule_export]
    use crate::fingerprinter::{_short_text, Fingerprinter, Inspection, fingerprint};
    #[pymodule_export]
    use crate::flight::PyFlights;
    #[pymodule_export]
    use crate::fold::{_tagged_item, aggregate, fold};
    #[pymodule_export]
    use crate::guard::Guards;
    #[pymodule_export]
    use crate::hooks::_fill_hooks;
    #[pymodule_export]
    use crate::jit::PyJit;
    #[pymodule_export]
    use crate::key::PyKey;
    #[pymodule_export]
    use crate::language::{
        _builtin_names, _compile_c, _find_compiler, _identify_compiler, _language_codes, _language_version,
        _load_kernel, _lower, _processor, _read_status, _seed, _set_threads, _take_failure, KernelCode,
        LoadedKernel,
    };
    #[pymodule_export]
    use crate::launch::{
        _add_context, _add_entry, _array_spec, _cuda_array_spec, _dlpack_spec, _find_executable,
        _forget_contexts, _has_context, _kernel_stats, _kernel_type, _last_executable, _make_kernel, _resume,
        _set_binder, _set_target_type, CallSpec, CheckSpec, GuardSpec, OutputSpec, SlotSpec, SourceSpec,
    };
    #[pymodule_export]
    use crate::own_array::NdArray;
    #[pymodule_export]
    use crate::source::{_dynamic_members, SourceFunction, SourceTable};
    #[pymodule_export]
    use crate::store::{_environment_variables, PyStore};

    /// The version of the canonical encoding.
    #[pymodule_export]
    const ENCODING_VERSION: u32 = keyprint_fingerprint::ENCODING_VERSION;
}
