//! Rows as comma-separated values (RFC 4180), which are safe to open in a spreadsheet.
//!
//! A spreadsheet runs a cell that begins like a formula, however it is quoted, and texts are written by anybody. So a text
//! that begins like one gets an apostrophe before it, which spreadsheets show as text. Texts that already have apostrophes there get
//! one more, so that taking one away from whatever has it gives the original back.

use model::Answer;
use model::api::{
    AuditEntry, ExportKind, ExportedAnswer, ExportedEvent, ExportedObject, ExportedRow, Label, LabelValue,
    LedgerEntry, VersionedAnswer,
};
use model::spreadsheet::needs_apostrophe;
use serde::Serialize;

use crate::runtime::{Result, internal};

/// The columns of each kind, without the cursor.
const OBJECTS: &str =
    "object_id,object_type,display_name,event_count,first_seen,last_seen,last_analyzed_at,analysis,pending";
const ANSWERS: &str = "object_id,at,signal,version,type,noul,score,choice,probabilities,confidence,raw,model,source,read_seq,escalated";
const LABELS: &str =
    "id,object_id,signal,version,value,note,source,by_kind,by_id,by_name,audit,answer,created_at";
const EVENTS: &str = "object_id,object_type,seq,type,name,content,metadata,occurred_at,received_at";
const LEDGER: &str = "id,created_at,reason,delta_micros,balance_after_micros,delta_cents,balance_after_cents,model,object_id,cost_usd,cost_margin,input_tokens,output_tokens,batch_id,payment_ref,note";
const AUDIT: &str =
    "id,at,actor_kind,actor_id,actor_name,action,target_kind,target_id,address,request_id,before,after";

/// The header line of an export.
pub(super) fn header(what: ExportKind) -> Vec<u8> {
    let columns = match what {
        ExportKind::Objects => OBJECTS,
        ExportKind::Answers => ANSWERS,
        ExportKind::Labels => LABELS,
        ExportKind::Events => EVENTS,
        ExportKind::Ledger => LEDGER,
        ExportKind::Audit => AUDIT,
    };
    format!("{columns},cursor\r\n").into_bytes()
}

/// Appends a row.
pub(super) fn write(bytes: &mut Vec<u8>, row: &ExportedRow, cursor: &str) -> Result<()> {
    let mut line = Line { bytes };
    match row {
        ExportedRow::Object(object) => write_object(&mut line, object)?,
        ExportedRow::Answer(answer) => write_answer(&mut line, answer)?,
        ExportedRow::Label(label) => write_label(&mut line, label)?,
        ExportedRow::Event(event) => write_event(&mut line, event),
        ExportedRow::Ledger(entry) => write_entry(&mut line, entry)?,
        ExportedRow::Audit(entry) => write_audit(&mut line, entry)?,
    }
    bytes.extend_from_slice(cursor.as_bytes());
    bytes.extend_from_slice(b"\r\n");
    Ok(())
}

/// A line that is being written. Each method writes one cell.
struct Line<'a> {
    bytes: &'a mut Vec<u8>,
}

impl Line<'_> {
    /// A number, a time, an id or a word of ours, which needs no care.
    fn plain(&mut self, value: impl ToString) {
        self.cell(&value.to_string());
    }

    fn plain_if(&mut self, value: Option<impl ToString>) {
        self.cell(&value.map(|value| value.to_string()).unwrap_or_default());
    }

    /// A text that somebody else has written.
    fn text(&mut self, text: &str) {
        if needs_apostrophe(text) {
            self.cell(&format!("'{text}"));
        } else {
            self.cell(text);
        }
    }

    fn text_if(&mut self, text: Option<&str>) {
        self.text(text.unwrap_or_default());
    }

    /// A record, which begins with a bracket, or a fraction, as JSON writes it.
    fn json(&mut self, record: &impl Serialize) -> Result<()> {
        self.cell(&serde_json::to_string(record).map_err(internal)?);
        Ok(())
    }

    fn json_if(&mut self, record: Option<&impl Serialize>) -> Result<()> {
        let Some(record) = record else {
            self.cell("");
            return Ok(());
        };
        self.json(record)
    }

    /// Semicolons and tabs are separators to some readers.
    fn cell(&mut self, text: &str) {
        if text.contains(['"', ',', ';', '\t', '\r', '\n']) || text.starts_with(' ') || text.ends_with(' ') {
            self.bytes.push(b'"');
            self.bytes.extend_from_slice(text.replace('"', "\"\"").as_bytes());
            self.bytes.push(b'"');
        } else {
            self.bytes.extend_from_slice(text.as_bytes());
        }
        self.bytes.push(b',');
    }
}

fn write_object(line: &mut Line<'_>, exported: &ExportedObject) -> Result<()> {
    let object = &exported.object;
    line.text(&object.object_id);
    line.text(&object.object_type);
    line.text_if(object.display_name.as_deref());
    line.plain(object.event_count);
    line.plain(exported.first_seen);
    line.plain(object.last_seen);
    line.plain_if(exported.last_analyzed_at);
    line.json(&object.analysis)?;
    line.json(&object.pending)
}

fn write_answer(line: &mut Line<'_>, exported: &ExportedAnswer) -> Result<()> {
    let VersionedAnswer { answer: Answer { signal, value, raw, escalated, .. }, version } = &exported.answer;
    line.text(&exported.object_id);
    line.plain(exported.at);
    line.text(signal);
    line.plain(version);
    line.plain(value.kind.as_str());
    line.json_if(value.noul.as_ref())?;
    line.json_if(value.score.as_ref())?;
    line.text_if(value.choice.as_deref());
    line.json_if(value.probabilities.as_ref())?;
    line.json_if(value.confidence.as_ref())?;
    line.json_if(raw.as_ref())?;
    line.text(&exported.model);
    line.plain(exported.source.as_str());
    line.plain(exported.read_seq);
    line.plain_if(*escalated);
    Ok(())
}

fn write_label(line: &mut Line<'_>, label: &Label) -> Result<()> {
    line.plain(label.id);
    line.text(&label.object_id);
    line.text(&label.signal);
    line.plain(label.version);
    match &label.value {
        LabelValue::YesNo(is_yes) => line.plain(is_yes),
        LabelValue::Level(level) => line.plain(level),
        LabelValue::Choice(option) => line.text(option),
    }
    line.text_if(label.note.as_deref());
    line.plain(label.source.as_str());
    line.plain(label.by.kind.as_str());
    line.plain(label.by.id);
    line.text(&label.by.name);
    line.plain(label.audit);
    line.json_if(label.answer.as_ref())?;
    line.plain(label.created_at);
    Ok(())
}

fn write_event(line: &mut Line<'_>, event: &ExportedEvent) {
    line.text(&event.object_id);
    line.text(&event.object_type);
    line.plain(event.seq);
    line.plain(event.kind.as_str());
    line.text_if(event.name.as_deref());
    line.text_if(event.content.as_deref());
    // As it was sent: it begins with a bracket.
    line.cell(event.metadata.as_ref().map_or("", |metadata| metadata.get()));
    line.plain(event.occurred_at);
    line.plain(event.received_at);
}

fn write_entry(line: &mut Line<'_>, entry: &LedgerEntry) -> Result<()> {
    line.plain(entry.id);
    line.plain(entry.created_at);
    line.plain(&entry.reason);
    line.plain(entry.delta_micros);
    line.plain(entry.balance_after_micros);
    line.plain(entry.delta_cents);
    line.plain(entry.balance_after_cents);
    line.text_if(entry.model.as_deref());
    line.text_if(entry.object_id.as_deref());
    line.json_if(entry.cost_usd.as_ref())?;
    line.json_if(entry.cost_margin.as_ref())?;
    line.plain_if(entry.input_tokens);
    line.plain_if(entry.output_tokens);
    line.plain_if(entry.batch_id);
    line.text_if(entry.payment_ref.as_deref());
    line.text_if(entry.note.as_deref());
    Ok(())
}

fn write_audit(line: &mut Line<'_>, entry: &AuditEntry) -> Result<()> {
    line.plain(entry.id);
    line.plain(entry.at);
    line.plain(entry.actor.kind.as_str());
    line.plain_if(entry.actor.id);
    line.text(&entry.actor.name);
    line.plain(entry.action.as_str());
    line.plain(&entry.target.kind);
    line.text(&entry.target.id);
    line.text_if(entry.address.as_deref());
    line.text_if(entry.request_id.as_deref());
    line.json_if(entry.before.as_ref())?;
    line.json_if(entry.after.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        let mut bytes = Vec::new();
        Line { bytes: &mut bytes }.text(text);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn separators_and_quotes_are_quoted() {
        for (text, cell) in [
            ("", ","),
            ("plain", "plain,"),
            ("a,b", "\"a,b\","),
            ("say \"hi\"", "\"say \"\"hi\"\"\","),
            ("two\nlines", "\"two\nlines\","),
            ("a;b", "\"a;b\","),
            (" spaced ", "\" spaced \","),
        ] {
            assert_eq!(written(text), cell);
        }
    }

    #[test]
    fn a_text_that_begins_like_a_formula_is_made_harmless_and_can_be_told_from_one_that_was_so() {
        for (text, cell) in [
            ("=1+1", "'=1+1,"),
            ("+1", "'+1,"),
            ("-1", "'-1,"),
            ("@SUM(A1)", "'@SUM(A1),"),
            ("\t=1", "\"'\t=1\","),
            ("\r\n=1", "\"'\r\n=1\","),
            ("＝1", "'＝1,"),
            ("'=1", "''=1,"),
            ("''=1", "'''=1,"),
            ("'quoted'", "'quoted',"),
            ("a=1", "a=1,"),
        ] {
            assert_eq!(written(text), cell);
        }
    }

    #[test]
    fn numbers_of_ours_stay_numbers() {
        let mut bytes = Vec::new();
        Line { bytes: &mut bytes }.plain(-104);
        assert_eq!(bytes, b"-104,");
    }
}
