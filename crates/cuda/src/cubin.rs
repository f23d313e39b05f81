//! What code for a device says of itself, without a device: an ELF file with sections of NVIDIA's own.

use std::collections::BTreeMap;

/// Attributes of functions in the sections `.nv.info`: how many registers, how many bytes of stack.
const REGISTERS: u8 = 0x2f;
const STACK: u8 = 0x11;

/// The form of an attribute that has a length of its own.
const SIZED: u8 = 4;

/// What a task takes of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskUse {
    /// Its name.
    pub name: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of memory of a thread, because there are not enough registers.
    pub spilled: u32,
    /// Bytes of memory that a block shares.
    pub shared: u32,
}

struct Section<'b> {
    name: &'b str,
    content: &'b [u8],
    bytes: u64,
    linked: usize,
}

/// What the tasks of a kernel take of a device; nothing if this is no code for one.
#[must_use]
pub fn uses(code: &[u8]) -> Option<Vec<TaskUse>> {
    let sections = sections(code)?;
    let symbols = sections.iter().find(|section| section.name == ".symtab")?;
    let names = sections.get(symbols.linked)?;
    let mut found: BTreeMap<String, TaskUse> = BTreeMap::new();
    for section in sections.iter().filter(|section| section.name == ".nv.info") {
        let mut at = 0;
        while at + 4 <= section.content.len() {
            let (form, attribute) = (section.content[at], section.content[at + 1]);
            let size = usize::from(u16::from_le_bytes(section.content.get(at + 2..at + 4)?.try_into().ok()?));
            if form != SIZED {
                at += 4;
                continue;
            }
            if matches!(attribute, REGISTERS | STACK) && size >= 8 {
                let (symbol, value) = (word(section.content, at + 4)?, word(section.content, at + 8)?);
                let name = symbol_name(symbols, names, symbol as usize)?;
                let task = found.entry(name.to_owned()).or_insert_with(|| TaskUse {
                    name: name.to_owned(),
                    registers: 0,
                    spilled: 0,
                    shared: 0,
                });
                match attribute {
                    REGISTERS => task.registers = value,
                    _ => task.spilled = value,
                }
            }
            at += 4 + size;
        }
    }
    for section in &sections {
        if let Some(task) = section.name.strip_prefix(".nv.shared.").and_then(|name| found.get_mut(name)) {
            task.shared = u32::try_from(section.bytes).unwrap_or(u32::MAX);
        }
    }
    // Functions of NVIDIA's own have a dollar in their names.
    Some(found.into_values().filter(|task| !task.name.contains('$')).collect())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn text(bytes: &[u8], at: usize) -> Option<&str> {
    let rest = bytes.get(at..)?;
    std::str::from_utf8(&rest[..rest.iter().position(|byte| *byte == 0)?]).ok()
}

fn symbol_name<'b>(symbols: &Section<'b>, names: &Section<'b>, number: usize) -> Option<&'b str> {
    text(names.content, word(symbols.content, number.checked_mul(24)?)? as usize)
}

/// The sections of an ELF file of 64 bits.
fn sections(code: &[u8]) -> Option<Vec<Section<'_>>> {
    if code.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let half = |at: usize| Some(usize::from(u16::from_le_bytes(code.get(at..at + 2)?.try_into().ok()?)));
    let table = usize::try_from(long(code, 40)?).ok()?;
    let (size, count, named) = (half(58)?, half(60)?, half(62)?);
    let head = |number: usize| table.checked_add(number.checked_mul(size)?);
    let content = |at: usize| -> Option<&[u8]> {
        let (kind, first, bytes) = (word(code, at + 4)?, long(code, at + 24)?, long(code, at + 32)?);
        // Some have a size and no content.
        if kind == 8 {
            return Some(&[]);
        }
        let first = usize::try_from(first).ok()?;
        code.get(first..first.checked_add(usize::try_from(bytes).ok()?)?)
    };
    let names = content(head(named)?)?;
    (0..count)
        .map(|number| {
            let at = head(number)?;
            Some(Section {
                name: text(names, word(code, at)? as usize)?,
                content: content(at)?,
                bytes: long(code, at + 32)?,
                linked: word(code, at + 40)? as usize,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rubbish_is_nothing() {
        let mut header = b"\x7fELF\x02".to_vec();
        assert_eq!(uses(b""), None);
        assert_eq!(uses(&header), None);
        header.resize(64, 0xff);
        assert_eq!(uses(&header), None);
        header[40..].fill(0);
        assert_eq!(uses(&header), None);
    }
}
