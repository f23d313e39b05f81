//! How values are shortened for people: one line, bounded, without control characters.

/// The length of a summary, in characters.
pub const MOST_CHARACTERS: usize = 200;

/// The length of a summary of a part.
pub const MOST_IN_PART: usize = 80;

/// Shortens a text to one line of at most `most` characters, keeping both ends.
///
/// ```
/// use keyprint_key::summary::shorten;
///
/// assert_eq!(shorten("one\ntwo", 20), "one\\ntwo");
/// assert_eq!(shorten(&"x".repeat(1000), 30), "xxxxxxxx … 1000 characters … x");
/// ```
#[must_use]
pub fn shorten(text: &str, most: usize) -> String {
    // Escaping makes texts longer, so no more than this can be of use.
    if text.len() <= 4 * most {
        let line = one_line(text);
        if line.chars().count() <= most {
            return line;
        }
    }
    let middle = format!(" … {} characters … ", text.chars().count());
    let room = most.saturating_sub(middle.chars().count());
    let (front, back) = (room - room / 5, room / 5);
    let mut head = String::new();
    let mut length = 0;
    for character in text.chars() {
        let shown = one_line(character.encode_utf8(&mut [0; 4]));
        length += shown.chars().count();
        if length > front {
            break;
        }
        head.push_str(&shown);
    }
    let mut tail = Vec::new();
    length = 0;
    for character in text.chars().rev() {
        let shown = one_line(character.encode_utf8(&mut [0; 4]));
        length += shown.chars().count();
        if length > back {
            break;
        }
        tail.push(shown);
    }
    tail.reverse();
    format!("{head}{middle}{}", tail.concat())
}

/// Escapes what would break a line or steer a terminal.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        // Marks that reorder text can make it read as something else.
        let reorders =
            matches!(character, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if character.is_control() || reorders {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_one_bounded_line(text in ".{0,600}", most in 40usize..120) {
            let line = shorten(&text, most);
            prop_assert!(line.chars().count() <= most, "{}", line);
            prop_assert!(!line.chars().any(char::is_control));
        }
    }

    #[test]
    fn a_terminal_is_not_steered() {
        assert_eq!(shorten("\x1b[31m", 40), "\\u{1b}[31m");
        assert_eq!(shorten("a\u{202e}b", 40), "a\\u{202e}b");
    }
}
