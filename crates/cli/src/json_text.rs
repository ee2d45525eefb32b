//! JSON with line breaks and indentation, in which every token stays as the service wrote it. Parsing and writing it again
//! would round large numbers and change how others are written.

/// Indents a JSON document by two spaces a level.
pub(crate) fn indent(document: &str) -> String {
    let mut text = String::with_capacity(document.len() * 2);
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    let mut characters = document.chars().peekable();
    while let Some(character) = characters.next() {
        if in_string {
            text.push(character);
            in_string = is_escaped || character != '"';
            is_escaped = character == '\\' && !is_escaped;
            continue;
        }
        match character {
            '"' => {
                in_string = true;
                text.push('"');
            }
            '{' | '[' => {
                let end = if character == '{' { '}' } else { ']' };
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                text.push(character);
                if characters.next_if_eq(&end).is_some() {
                    text.push(end);
                } else {
                    depth += 1;
                    break_line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut text, depth);
                text.push(character);
            }
            ',' => {
                text.push(',');
                break_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            other if other.is_ascii_whitespace() => {}
            other => text.push(other),
        }
    }
    text
}

fn break_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::indent;

    #[test]
    fn tokens_stay_as_they_are() {
        let document =
            r#"{"a":1.50e2,"b":[true,null],"c":{},"d":[ ],"e":"x\"{,:[ é","f":12345678901234567890123}"#;
        let expected = "{\n  \"a\": 1.50e2,\n  \"b\": [\n    true,\n    null\n  ],\n  \"c\": {},\n  \"d\": [],\n  \
            \"e\": \"x\\\"{,:[ é\",\n  \"f\": 12345678901234567890123\n}";
        assert_eq!(indent(document), expected);
        assert_eq!(indent(expected), expected);
        assert_eq!(indent("\"\\\\\""), "\"\\\\\"");
    }
}
