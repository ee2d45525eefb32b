//! Answers the questions of a file with an analyzer: `answer QUESTIONS [openai|anthropic|systemone URL MODEL [KEY]]`.
//!
//! A question is a line of JSON with kind, state, ask and criteria; the answer is the same line with its probabilities.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use auspex_analyzer::{Analyzer, Anthropic, Embedded, Endpoint, Inquiry, OpenAi, SystemOne};
use futures_util::{StreamExt as _, stream};
use model::Question;
use serde_json::{Value, json};

/// Questions under way at once.
const CONCURRENCY: usize = 8;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().ok_or("which questions?")?;
    let analyzer = analyzer(&arguments[1..])?;
    let text = std::fs::read_to_string(path)?;
    let rows = text.lines().map(serde_json::from_str::<Value>).collect::<Result<Vec<_>, _>>()?;
    let mut answers =
        stream::iter(rows).map(|row| answered(Arc::clone(&analyzer), row)).buffered(CONCURRENCY);
    while let Some(row) = answers.next().await {
        #[expect(clippy::print_stdout, reason = "this is what it is for")]
        {
            println!("{}", row?);
        }
    }
    Ok(())
}

fn analyzer(arguments: &[String]) -> Result<Arc<dyn Analyzer>, Box<dyn Error>> {
    let [kind, url, model, key @ ..] = arguments else { return Ok(Arc::new(Embedded::new()?)) };
    let endpoint = Endpoint {
        url: url.parse()?,
        api_key: key.first().cloned(),
        model: model.clone(),
        timeout: Duration::from_mins(2),
        max_concurrency: CONCURRENCY,
    };
    Ok(match kind.as_str() {
        "openai" => Arc::new(OpenAi::new(endpoint)?),
        "anthropic" => Arc::new(Anthropic::new(endpoint)?),
        "systemone" => Arc::new(SystemOne::new(endpoint)?),
        other => return Err(format!("no analyzer {other}").into()),
    })
}

async fn answered(analyzer: Arc<dyn Analyzer>, mut row: Value) -> Result<Value, Box<dyn Error>> {
    let kind = row["kind"].as_str().unwrap_or_default().parse()?;
    let criteria = (!row["criteria"].is_null()).then(|| row["criteria"].to_string());
    let question = [Question::parse("question", kind, &row["ask"].to_string(), criteria.as_deref())?];
    let state = row["state"].as_str().unwrap_or_default().to_owned();
    let findings =
        analyzer.analyze(Inquiry { is_urgent: false, state: &state, questions: &question }).await?;
    let answer = findings.answers.into_iter().next().ok_or("no answer")??;
    row["probabilities"] = json!(answer.probabilities());
    Ok(row)
}
