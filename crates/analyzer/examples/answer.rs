//! Answers the questions in a file with an analyzer: `answer QUESTIONS [openai|anthropic|systemone URL MODEL [KEY]]`.
//!
//! A question is a line of JSON with kind, state, ask and criteria; the answer is the same line with its probabilities.
//! Consecutive questions about one state are sent together, as the service does.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use auspex_analyzer::{Analyzer, Anthropic, Embedded, Endpoint, Inquiry, OpenAi, SystemOne};
use futures_util::{StreamExt as _, stream};
use model::Question;
use serde_json::{Value, json};

/// Inquiries in flight at once.
const CONCURRENCY: usize = 8;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path =
        arguments.first().ok_or("usage: answer QUESTIONS [openai|anthropic|systemone URL MODEL [KEY]]")?;
    let analyzer = analyzer(&arguments[1..])?;
    let text = std::fs::read_to_string(path)?;
    let rows = text.lines().map(serde_json::from_str::<Value>).collect::<Result<Vec<_>, _>>()?;
    let states = rows.chunk_by(|one, next| one["state"] == next["state"]).map(<[Value]>::to_vec);
    let mut answers =
        stream::iter(states).map(|rows| answered(Arc::clone(&analyzer), rows)).buffered(CONCURRENCY);
    while let Some(rows) = answers.next().await {
        for row in rows? {
            #[expect(clippy::print_stdout, reason = "its output is the result")]
            {
                println!("{row}");
            }
        }
    }
    Ok(())
}

fn analyzer(arguments: &[String]) -> Result<Arc<dyn Analyzer>, Box<dyn Error>> {
    let [kind, url, model, key @ ..] = arguments else {
        return Ok(Arc::new(Embedded::new(Duration::from_mins(10))?));
    };
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
        other => return Err(format!("unknown analyzer: {other}").into()),
    })
}

async fn answered(analyzer: Arc<dyn Analyzer>, mut rows: Vec<Value>) -> Result<Vec<Value>, Box<dyn Error>> {
    let questions = rows.iter().map(question).collect::<Result<Vec<_>, _>>()?;
    let state = rows[0]["state"].as_str().unwrap_or_default().to_owned();
    let findings = analyzer
        .analyze(Inquiry { is_urgent: false, tenant: None, state: &state, questions: &questions })
        .await?;
    for (row, answer) in rows.iter_mut().zip(findings.answers) {
        row["probabilities"] = json!(answer?.probabilities());
    }
    Ok(rows)
}

fn question(row: &Value) -> Result<Question, Box<dyn Error>> {
    let kind = row["kind"].as_str().unwrap_or_default().parse()?;
    let criteria = (!row["criteria"].is_null()).then(|| row["criteria"].to_string());
    Ok(Question::parse("question", kind, &row["ask"].to_string(), criteria.as_deref())?)
}
