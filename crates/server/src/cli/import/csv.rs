//! One line of comma-separated values (RFC 4180), with any separator of one byte.

/// The cells of a line, whose quotes are balanced.
pub(crate) fn cells(line: &[u8], delimiter: u8) -> Result<Vec<String>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    let delimiter = char::from(delimiter);
    let (mut cells, mut rest) = (Vec::new(), text);
    loop {
        let (cell, after) = if let Some(quoted) = rest.strip_prefix('"') {
            quoted_cell(quoted)?
        } else {
            let end = rest.find(delimiter).unwrap_or(rest.len());
            (rest[..end].to_owned(), &rest[end..])
        };
        cells.push(cell);
        if after.is_empty() {
            return Ok(cells);
        }
        rest = after.strip_prefix(delimiter).ok_or("text follows a closing quote")?;
    }
}

/// A cell after its opening quote, and what follows its closing one.
fn quoted_cell(text: &str) -> Result<(String, &str), String> {
    let (mut cell, mut rest) = (String::new(), text);
    loop {
        let (before, after) = rest.split_once('"').ok_or("a quote is not closed")?;
        cell.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                cell.push('"');
                rest = more;
            }
            None => return Ok((cell, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_split_at_separators_outside_of_quotes() {
        for (line, expected) in [
            ("a,b\r\n", &["a", "b"][..]),
            ("a,b", &["a", "b"]),
            ("a,,\n", &["a", "", ""]),
            ("\n", &[""]),
            ("\"a,b\",\"c\"\"d\"\r\n", &["a,b", "c\"d"]),
            ("\"two\r\nlines\",x\r\n", &["two\r\nlines", "x"]),
            ("\"\",\"\"\"\"\n", &["", "\""]),
            ("it's 5\" long,x\n", &["it's 5\" long", "x"]),
        ] {
            assert_eq!(cells(line.as_bytes(), b',').unwrap(), expected, "{line:?}");
        }
        assert_eq!(cells(b"a;b,c\n", b';').unwrap(), ["a", "b,c"]);
        assert_eq!(cells(b"a\tb\n", b'\t').unwrap(), ["a", "b"]);
    }

    #[test]
    fn what_is_no_csv_is_refused() {
        assert_eq!(cells(b"\"a\"b,c\n", b',').unwrap_err(), "text follows a closing quote");
        assert_eq!(cells(b"\"a\n", b',').unwrap_err(), "a quote is not closed");
        assert_eq!(cells(b"\xff\n", b',').unwrap_err(), "it is not UTF-8");
    }
}
