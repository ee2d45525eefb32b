//! The body of a mail, rendered as plain text and as HTML that looks the same in any mail program.

/// The content of a mail: a heading, paragraphs, and a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// One line that summarizes the mail.
    pub heading: String,
    /// The text, by paragraph.
    pub paragraphs: Vec<String>,
    /// An optional button below the text.
    pub link: Option<Link>,
    /// An optional small link at the end.
    pub footer: Option<Link>,
}

/// A link, rendered as a button.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The text of the button.
    pub label: String,
    /// The target.
    pub url: String,
}

// Mail programs drop style sheets, so each element has its own style.
const PAGE: &str =
    "margin:0;padding:24px;font-family:sans-serif;font-size:16px;line-height:1.5;color:#1a1a1a";
const COLUMN: &str = "max-width:560px;margin:0 auto";
const HEADING: &str = "font-size:20px;margin:0 0 16px";
const PARAGRAPH: &str = "margin:0 0 16px";
const BUTTON: &str = "display:inline-block;padding:10px 18px;background:#1a4fd0;color:#ffffff;text-decoration:none;border-radius:4px";
const FOOTER: &str = "margin:24px 0 0;font-size:13px;color:#595959;word-break:break-all";
const SMALL: &str = "margin:0;font-size:13px;color:#595959;word-break:break-all";

impl Body {
    /// Renders plain text.
    pub fn to_text(&self) -> String {
        let mut blocks = vec![self.heading.clone()];
        blocks.extend(self.paragraphs.iter().cloned());
        let links = [&self.link, &self.footer].into_iter().flatten();
        blocks.extend(links.map(|link| format!("{}:\n{}", link.label, link.url)));
        blocks.join("\n\n") + "\n"
    }

    /// Renders HTML: no images, nothing to download, and so nothing that reveals that the mail was read.
    pub fn to_html(&self) -> String {
        let heading = escape(&self.heading);
        let mut lines = vec![
            "<!doctype html>".to_owned(),
            "<html lang=\"en\">".to_owned(),
            format!("<head><meta charset=\"utf-8\"><title>{heading}</title></head>"),
            format!("<body style=\"{PAGE}\">"),
            format!("<div style=\"{COLUMN}\">"),
            format!("<h1 style=\"{HEADING}\">{heading}</h1>"),
        ];
        let paragraphs = self.paragraphs.iter();
        lines.extend(paragraphs.map(|text| format!("<p style=\"{PARAGRAPH}\">{}</p>", escape(text))));
        if let Some(link) = &self.link {
            let (label, url) = (escape(&link.label), escape(&link.url));
            lines.push(format!(
                "<p style=\"{PARAGRAPH}\"><a href=\"{url}\" style=\"{BUTTON}\">{label}</a></p>"
            ));
            // For readers who want to copy the URL, or see where the button leads.
            lines.push(format!("<p style=\"{SMALL}\">{url}</p>"));
        }
        if let Some(Link { label, url }) = &self.footer {
            let (label, url) = (escape(label), escape(url));
            lines.push(format!("<p style=\"{FOOTER}\">{label}: <a href=\"{url}\">{url}</a></p>"));
        }
        lines.extend(["</div>".to_owned(), "</body>".to_owned(), "</html>".to_owned()]);
        lines.join("\n") + "\n"
    }
}

/// Escapes text for HTML, between tags and in quoted attributes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        let nasty = "<script>'\"&".to_owned();
        let link = Link { label: nasty.clone(), url: "https://example.com/?a=1&b=\"><script>".to_owned() };
        let body = Body {
            heading: nasty.clone(),
            paragraphs: vec![nasty.clone()],
            link: Some(link.clone()),
            footer: Some(link),
        };
        let html = body.to_html();
        assert!(!html.contains("<script>"), "{html}");
        assert_eq!(
            html.matches("&lt;script&gt;&#39;&quot;&amp;").count(),
            5,
            "title, heading, paragraph, label, footer"
        );
        assert!(html.contains("href=\"https://example.com/?a=1&amp;b=&quot;&gt;&lt;script&gt;\""), "{html}");
        assert_eq!(body.to_text().matches(&nasty).count(), 4, "plain text stays as it is");
    }

    #[test]
    fn a_link_is_optional() {
        let body = Body {
            heading: "Hello".to_owned(),
            paragraphs: vec!["World".to_owned()],
            link: None,
            footer: None,
        };
        assert_eq!(body.to_text(), "Hello\n\nWorld\n");
        assert!(!body.to_html().contains("<a "));
    }
}
