//! `Flights`: one call for each key, however many threads ask, for results that stay in memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use keyprint_store::{Flights, PerProcess, Role};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

/// How long a thread waits for another's call before making it here, too.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Who calls what.
#[pyclass(frozen, name = "Flights", module = "keyprint._native")]
pub(crate) struct PyFlights {
    flights: PerProcess<Flights<String, Arc<Py<PyAny>>>>,
}

/// What a mapping has under a key.
fn look_up<'py>(cache: &Bound<'py, PyAny>, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    match cache.get_item(key) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_instance_of::<PyKeyError>(cache.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

#[pymethods]
impl PyFlights {
    #[new]
    fn new() -> Self {
        Self { flights: PerProcess::new(Flights::default()) }
    }

    /// How many calls are being made.
    fn __len__(&self) -> usize {
        self.flights.get(Flights::default).len()
    }

    /// What `cache[key]` has; if it has nothing, `cache[key] = build()`, by one thread at a time.
    #[pyo3(signature = (cache, key, build, /))]
    fn get_or_build<'py>(
        &self,
        py: Python<'py>,
        cache: &Bound<'py, PyAny>,
        key: &str,
        build: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let flights = self.flights.get(Flights::default);
        let deadline = Instant::now() + LONGEST_WAIT;
        let name = key.to_owned();
        if let Some(value) = look_up(cache, key)? {
            return Ok(value);
        }
        let tick = &mut || Python::attach(|py| py.check_signals());
        match py.detach(|| flights.join(&name, deadline, tick))? {
            Role::Lead(leading) => {
                // Somebody may have landed since the look into the cache.
                let value = match look_up(cache, key)? {
                    Some(value) => value,
                    None => {
                        let value = build.call0()?;
                        cache.set_item(key, &value)?;
                        value
                    }
                };
                leading.land(&Arc::new(value.clone().unbind()));
                Ok(value)
            }
            Role::Use(value) => Ok(value.bind(py).clone()),
            Role::Alone => {
                // Whoever was waited for may not have been the only one.
                if let Some(value) = look_up(cache, key)? {
                    return Ok(value);
                }
                let value = build.call0()?;
                cache.set_item(key, &value)?;
                Ok(value)
            }
        }
    }
}
