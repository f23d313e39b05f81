//! `keyprint path`.

use std::path::Path;

use serde_json::json;

use crate::output::Output;
use crate::{Done, Failure};

pub(crate) fn run(path: Option<&Path>, output: &mut Output<'_>) -> Done {
    match path {
        None => Err(Failure::Said(
            "there is no home directory to keep a store in\nhint: set `KEYPRINT_CACHE_DIR`".into(),
        )),
        Some(path) if output.is_json() => {
            output.value(&json!({"path": path}));
            Ok(0)
        }
        Some(path) => {
            output.line(path.display().to_string());
            Ok(0)
        }
    }
}
