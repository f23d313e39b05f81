//! One file per command.

pub(crate) mod clear;
pub(crate) mod doctor;
pub(crate) mod extract;
pub(crate) mod gc;
pub(crate) mod ls;
pub(crate) mod path;
pub(crate) mod show;
pub(crate) mod stats;
pub(crate) mod transfer;
pub(crate) mod verify;
pub(crate) mod why;
