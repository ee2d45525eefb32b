//! Texts are scored in the shapes of other moderation services: OpenAI's moderation endpoint and the Perspective API.

use std::sync::Arc;

use analyzer::{Analyzer, BoxFuture, Failure, Inquiry, InquiryAnswers};
use model::Distribution;
use reqwest::Method;
use serde_json::{Value, json};
use store::{Backend, Store};
use testkit::{Stage, ask_peer};

use crate::app::{App, Reply};
use crate::scripted_analyzer::{Scripted, Settings, number, until};

testkit::on_both!(
    the_official_client_of_openai_moderates_texts,
    a_text_is_scored_and_charged_and_nothing_is_recorded,
    a_signal_of_the_same_name_is_asked_instead,
    what_is_no_text_is_refused,
    google_s_client_scores_comments,
    the_language_of_a_comment_is_told,
    sentences_are_scored_where_they_stand,
    errors_of_perspective_have_google_s_shape,
    what_stops_an_account_has_google_s_shape,
    a_suggested_score_labels_the_object_it_names,
    only_a_bearer_key_with_the_scope_moderates,
);

const MODERATIONS: &str = "/v1/moderations";
const INPUT_TOKENS: u64 = 1_000;

/// Says yes to the questions whose key the text contains: 0.9, or 0.7 where the wording has "mine".
struct Keyed;

impl Analyzer for Keyed {
    fn model(&self) -> &'static str {
        "keyed"
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<InquiryAnswers, Failure>> {
        let answer = |question: &model::Question| {
            let is_mine = question.instructions.to_string().contains("mine");
            let yes = match (inquiry.state.contains(&question.key), is_mine) {
                (true, true) => 0.7,
                (true, false) => 0.9,
                (false, _) => 0.1,
            };
            Distribution::from_weights(&[yes, 1.0 - yes]).map_err(|_| analyzer::AnswerError::Incomplete)
        };
        let is_silent = inquiry.state.contains("silence");
        let reply = InquiryAnswers {
            model: self.model().to_owned(),
            // One answer is missing.
            answers: inquiry.questions.iter().skip(usize::from(is_silent)).map(answer).collect(),
            input_tokens: INPUT_TOKENS,
            output_tokens: 0,
        };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

/// A limit that a test reaches.
struct FewRequests;

impl Settings for FewRequests {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_RATE_LIMIT_PER_MINUTE", "20")];
}

struct Keys {
    app: App,
    store: Store,
    console: String,
    bearer: String,
}

impl Stage for Keys {
    async fn set_up(backend: Backend) -> Self {
        let app = App::start_with_analyzer(backend, Arc::new(Keyed)).await;
        let store = Store::open(app.database_url()).await.unwrap();
        let console = app.register("ann@example.com").await;
        let bearer = app.bearer_key(&console, &["moderate"]).await;
        Self { app, store, console, bearer }
    }

    async fn tear_down(self) {
        self.store.close().await;
        self.app.tear_down().await;
    }
}

impl Keys {
    async fn moderate(&self, input: Value) -> Reply {
        self.app.call(&self.bearer, Method::POST, MODERATIONS, &json!({"input": input})).await
    }

    async fn comment(&self, method: &str, key: &str, body: &Value) -> Reply {
        comment(&self.app, method, key, body).await
    }

    async fn put_signal(&self, key: &str, signal: Value) {
        let path = format!("/v1/signals/{key}");
        let put = self.app.call(&self.console, Method::PUT, &path, &signal).await;
        assert!(put.status.is_success(), "{}", put.text);
    }
}

/// A call as clients of the Perspective API make it.
async fn comment(app: &App, method: &str, key: &str, body: &Value) -> Reply {
    let path = format!("/v1alpha1/comments:{method}");
    app.send(app.request(Method::POST, &path).query(&[("key", key)]).json(body)).await
}

async fn the_official_client_of_openai_moderates_texts(stage: &Keys) {
    let inputs = [
        json!("harassment_threatening"),
        json!(["calm", "hate"]),
        json!([{"type": "text", "text": "calm"}, {"type": "text", "text": "violence"}]),
        json!([{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]),
    ];
    let said = ask_peer("official_openai.py", &[&stage.app.url("/v1"), &stage.bearer], &inputs);
    let [one, two, parts, image] = &said[..] else { panic!("{said:?}") };
    assert_eq!(one["model"], "keyed");
    assert!(one["id"].as_str().unwrap().starts_with("modr-"), "{one}");
    let result = &one["results"][0];
    assert_eq!((&result["flagged"], &result["harassment_threatening"]), (&json!(true), &json!(0.9)));
    assert_eq!(result["categories"].as_object().unwrap().len(), 13);
    assert_eq!(result["categories"]["harassment/threatening"], true);
    assert_eq!(result["categories"]["self-harm/intent"], false);
    assert_eq!(result["scores"]["sexual/minors"], 0.1);
    assert_eq!(result["types"]["violence"], json!(["text"]));
    assert_eq!((&two["results"][0]["flagged"], &two["results"][1]["flagged"]), (&json!(false), &json!(true)));
    assert_eq!(parts["results"].as_array().unwrap().len(), 1);
    assert_eq!(parts["results"][0]["categories"]["violence"], true);
    assert_eq!((&image["error"], &image["code"]), (&json!("BadRequestError"), &json!("bad_request")));
    assert!(image["message"].as_str().unwrap().contains("images are not read"), "{image}");
    let wrong = ask_peer("official_openai.py", &[&stage.app.url("/v1"), "bk_wrong"], &inputs[..1]);
    assert_eq!(wrong[0]["error"], "AuthenticationError");
}

async fn a_text_is_scored_and_charged_and_nothing_is_recorded(stage: &Keys) {
    let reply = stage.moderate(json!(["a", "b", "c"])).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.json()["results"].as_array().unwrap().len(), 3);
    let charges = "SELECT count(*) FROM ledger_entries WHERE kind = 'charge'";
    assert_eq!(number(&stage.store, charges).await, 1, "one line a request");
    let charged = "SELECT input_tokens FROM ledger_entries WHERE kind = 'charge'";
    assert_eq!(number(&stage.store, charged).await, i64::try_from(3 * INPUT_TOKENS).unwrap());
    for table in
        ["SELECT count(*) FROM objects", "SELECT count(*) FROM events", "SELECT count(*) FROM answer_history"]
    {
        assert_eq!(number(&stage.store, table).await, 0, "{table}");
    }
    // An answer that is missing is no zero.
    stage.moderate(json!("silence")).await.refused(502, "analyzer_error");
    assert_eq!(number(&stage.store, charges).await, 1);
}

async fn a_signal_of_the_same_name_is_asked_instead(stage: &Keys) {
    let mine = json!({"type": "noul", "instructions": "Is it mine?"});
    stage.put_signal("harassment_threatening", mine.clone()).await;
    let scores = |reply: Reply| reply.json()["results"][0]["category_scores"].clone();
    let scored = scores(stage.moderate(json!("harassment_threatening")).await);
    assert_eq!((&scored["harassment/threatening"], &scored["harassment"]), (&json!(0.7), &json!(0.9)));
    // One of another type has no probability of yes.
    let scale = json!({"type": "score", "instructions": "mine", "criteria": ["low", "high"]});
    stage.put_signal("hate", scale).await;
    let scored = scores(stage.moderate(json!("hate")).await);
    assert_eq!(scored["hate"], 0.9);
    stage.put_signal("toxicity", mine.clone()).await;
    let body =
        json!({"comment": {"text": "toxicity"}, "requestedAttributes": {"TOXICITY": {}, "INSULT": {}}});
    let scored = stage.comment("analyze", &stage.bearer, &body).await.json();
    assert_eq!(scored["attributeScores"]["TOXICITY"]["summaryScore"]["value"], 0.7);
    // A signal that is disabled is not asked.
    let mut disabled = mine;
    disabled["enabled"] = json!(false);
    stage.put_signal("toxicity", disabled).await;
    stage.app.advance(std::time::Duration::from_secs(1));
    let scored = stage.comment("analyze", &stage.bearer, &body).await.json();
    assert_eq!(scored["attributeScores"]["TOXICITY"]["summaryScore"]["value"], 0.9);
}

async fn what_is_no_text_is_refused(stage: &Keys) {
    for input in [json!(null), json!(7), json!([]), json!(["a", 1]), json!([[1]]), json!(vec!["a"; 33])] {
        let message = stage.moderate(input).await.refused(400, "bad_request");
        assert!(message.starts_with("input"), "{message}");
    }
    let longest = "a".repeat(32 * 1024);
    assert_eq!(stage.moderate(json!(longest)).await.status, 200);
    stage.moderate(json!(format!("{longest}a"))).await.refused(400, "bad_request");
    let missing = stage.app.call(&stage.bearer, Method::POST, MODERATIONS, &json!({})).await;
    assert!(missing.refused(400, "bad_request").contains("input"));
}

async fn google_s_client_scores_comments(stage: &Keys) {
    let body = json!({
        "comment": {"text": "an insult, no more", "type": "PLAIN_TEXT"},
        "requestedAttributes": {"TOXICITY": {}, "INSULT": {}, "THREAT": {"scoreThreshold": 0.5}, "TOXICITY_EXPERIMENTAL": {}},
        "languages": ["en"], "doNotStore": true, "clientToken": "c-1", "sessionId": "s", "communityId": "x",
    });
    let wrong = json!({"comment": {"text": "a"}, "requestedAttributes": {"BEAUTY": {}}});
    let asked = [json!({"method": "analyze", "body": body}), json!({"method": "analyze", "body": wrong})];
    let said = ask_peer("official_perspective.py", &[&stage.app.url(""), &stage.bearer], &asked);
    let scores = &said[0]["attributeScores"];
    assert_eq!(scores["INSULT"]["summaryScore"], json!({"value": 0.9, "type": "PROBABILITY"}));
    assert_eq!(
        scores["INSULT"]["spanScores"],
        json!([{"begin": 0, "end": 18, "score": {"value": 0.9, "type": "PROBABILITY"}}])
    );
    assert_eq!(scores["TOXICITY"], scores["TOXICITY_EXPERIMENTAL"]);
    assert_eq!(scores.get("THREAT"), None, "it is below its threshold");
    assert_eq!((&said[0]["languages"], &said[0]["clientToken"]), (&json!(["en"]), &json!("c-1")));
    assert_eq!(said[1]["error"], 400);
    assert!(said[1]["reason"].as_str().unwrap().contains("no attribute BEAUTY"), "{}", said[1]);
}

/// As there: the languages of the request, or else the detected one. What a text does not tell is not made up.
async fn the_language_of_a_comment_is_told(stage: &Keys) {
    let told = async |text: &str, languages: Option<&[&str]>| {
        let body =
            json!({"comment": {"text": text}, "requestedAttributes": {"INSULT": {}}, "languages": languages});
        let scored = stage.comment("analyze", &stage.bearer, &body).await.json();
        (scored["languages"].clone(), scored["detectedLanguages"].clone())
    };
    let german =
        "Das ist doch nicht dein Ernst, so etwas schreibt man nicht über Leute, die man gar nicht kennt.";
    assert_eq!(told(german, None).await, (json!(["de"]), json!(["de"])));
    assert_eq!(told(german, Some(&[])).await, (json!(["de"]), json!(["de"])));
    assert_eq!(told(german, Some(&["en", "de"])).await, (json!(["en", "de"]), json!(["de"])));
    assert_eq!(told("ok", None).await, (json!(["und"]), json!([])));
}

async fn sentences_are_scored_where_they_stand(stage: &Keys) {
    let text = "\u{1F600} Hello there. This is an insult!\nAnd a threat";
    let body = json!({
        "comment": {"text": text},
        "requestedAttributes": {"INSULT": {}, "THREAT": null},
        "spanAnnotations": true,
    });
    let scored = stage.comment("analyze", &stage.bearer, &body).await.json();
    let spans = |attribute: &str| {
        let spans = scored["attributeScores"][attribute]["spanScores"].as_array().unwrap();
        spans
            .iter()
            .map(|span| json!([span["begin"], span["end"], span["score"]["value"]]))
            .collect::<Vec<_>>()
    };
    assert_eq!(spans("INSULT"), [json!([0, 15, 0.1]), json!([16, 34, 0.9]), json!([35, 47, 0.1])]);
    assert_eq!(spans("THREAT"), [json!([0, 15, 0.1]), json!([16, 34, 0.1]), json!([35, 47, 0.9])]);
    assert_eq!((&scored["languages"], &scored["detectedLanguages"]), (&json!(["en"]), &json!(["en"])));
    let charged = "SELECT input_tokens FROM ledger_entries WHERE kind = 'charge'";
    assert_eq!(number(&stage.store, charged).await, i64::try_from(4 * INPUT_TOKENS).unwrap());
}

async fn errors_of_perspective_have_google_s_shape(stage: &Keys) {
    let good = json!({"comment": {"text": "a"}, "requestedAttributes": {"TOXICITY": {}}});
    let mcp = stage.app.bearer_key(&stage.console, &["mcp"]).await;
    for (key, body, status, name) in [
        ("bk_wrong", good.clone(), 400, "INVALID_ARGUMENT"),
        ("", good.clone(), 400, "INVALID_ARGUMENT"),
        (mcp.as_str(), good.clone(), 403, "PERMISSION_DENIED"),
        (&stage.bearer, json!({}), 400, "INVALID_ARGUMENT"),
        (
            &stage.bearer,
            json!({"comment": {"text": " "}, "requestedAttributes": {"TOXICITY": {}}}),
            400,
            "INVALID_ARGUMENT",
        ),
        (
            &stage.bearer,
            json!({"comment": {"text": "a"}, "requestedAttributes": {}}),
            400,
            "INVALID_ARGUMENT",
        ),
        (
            &stage.bearer,
            json!({"comment": {"text": "a".repeat(20_481)}, "requestedAttributes": {"TOXICITY": {}}}),
            400,
            "INVALID_ARGUMENT",
        ),
        (
            &stage.bearer,
            json!({"comment": {"text": "a"}, "requestedAttributes": {"TOXICITY": {"scoreType": "STANDARD"}}}),
            400,
            "INVALID_ARGUMENT",
        ),
        (
            &stage.bearer,
            json!({"comment": {"text": "silence"}, "requestedAttributes": {"TOXICITY": {}}}),
            502,
            "UNAVAILABLE",
        ),
    ] {
        let reply = stage.comment("analyze", key, &body).await;
        assert_eq!(reply.status, status, "{}", reply.text);
        let error = &reply.json()["error"];
        assert_eq!((&error["code"], &error["status"]), (&json!(status), &json!(name)), "{error}");
        assert!(error["message"].is_string() && error["details"][0]["reason"].is_string(), "{error}");
        assert_eq!(reply.header("content-type"), "application/json");
    }
    // The key is taken from the query on these routes only.
    let elsewhere = stage.app.request(Method::POST, MODERATIONS).query(&[("key", &stage.bearer)]);
    stage.app.send(elsewhere.json(&json!({"input": "a"}))).await.refused(401, "unauthorized");
}

async fn what_stops_an_account_has_google_s_shape(stage: &Scripted<FewRequests>) {
    let console = stage.register("ann@example.com").await;
    // The first request of twenty.
    let key = stage.bearer_key(&console, &["moderate"]).await;
    let body = json!({"comment": {"text": "a"}, "requestedAttributes": {"TOXICITY": {}}});
    let ask = async || comment(stage, "analyze", &key, &body).await;
    let refused = |reply: &Reply, status: u16, name: &str, reason: &str| {
        assert_eq!((reply.status.as_u16(), reply.header("content-type")), (status, "application/json"));
        let error = &reply.json()["error"];
        assert_eq!((&error["code"], &error["status"]), (&json!(status), &json!(name)), "{error}");
        assert!(!error["message"].as_str().unwrap().is_empty(), "{error}");
        assert_eq!(error["details"][0]["reason"], reason, "{error}");
    };
    for _ in 0..19 {
        assert_eq!(ask().await.status, 200);
    }
    let reply = ask().await;
    refused(&reply, 429, "RESOURCE_EXHAUSTED", "RATE_LIMITED");
    let wait: u64 = reply.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    stage.advance(std::time::Duration::from_secs(wait));
    assert_eq!(ask().await.status, 200, "waiting as long as it says is enough");

    stage.empty_balances().await;
    refused(&ask().await, 402, "FAILED_PRECONDITION", "PAYMENT_REQUIRED");
    stage.credit_everybody(1).await;
    assert_eq!(ask().await.status, 200);

    let service = stage.service();
    let tenant = service.accounts.operators.tenants().await.unwrap()[0].tenant_id;
    // A credential is cached for less than a second of real time; each minute of the service's clock has its own budget.
    let becomes = async |status: u16| {
        until("the cached credential has expired", async || {
            stage.advance(std::time::Duration::from_mins(1));
            ask().await.status == status
        })
        .await;
    };
    service.accounts.closure.suspend(tenant).await.unwrap();
    becomes(403).await;
    refused(&ask().await, 403, "PERMISSION_DENIED", "SUSPENDED");
    service.accounts.closure.resume(tenant).await.unwrap();
    becomes(200).await;
}

async fn a_suggested_score_labels_the_object_it_names(stage: &Keys) {
    let events = json!({"wait": true, "events": [{"type": "message", "content": "toxicity"}]});
    let sent = stage.app.call(&stage.console, Method::POST, "/v1/objects/user_1/events", &events).await;
    assert_eq!(sent.status, 200, "{}", sent.text);
    let suggestion = |object: &str| {
        json!({
            "comment": {"text": "toxicity"},
            "attributeScores": {"TOXICITY": {"summaryScore": {"value": 0.8}}, "INSULT": {"summaryScore": {"value": 0.1}}},
            "sessionId": object, "clientToken": "c-2",
        })
    };
    let labels = "SELECT count(*) FROM labels";
    let asked = [json!({"method": "suggestscore", "body": suggestion("user_1")})];
    let said = ask_peer("official_perspective.py", &[&stage.app.url(""), &stage.bearer], &asked);
    assert_eq!(said, [json!({"clientToken": "c-2"})]);
    assert_eq!(number(&stage.store, labels).await, 0, "there is no such signal");
    stage.put_signal("toxicity", json!({"type": "noul", "instructions": "Is it rude?"})).await;
    for object in ["nobody", "", "user_1"] {
        let reply = stage.comment("suggestscore", &stage.bearer, &suggestion(object)).await;
        assert_eq!((reply.status.as_u16(), reply.json()), (200, json!({"clientToken": "c-2"})));
    }
    let listed = stage.app.call(&stage.console, Method::GET, "/v1/labels", &Value::Null).await.json();
    let labels = listed["labels"].as_array().unwrap();
    assert_eq!(labels.len(), 1, "{listed}");
    assert_eq!((&labels[0]["object_id"], &labels[0]["value"]), (&json!("user_1"), &json!(true)));
    assert_eq!((&labels[0]["signal"], &labels[0]["by"]["kind"]), (&json!("toxicity"), &json!("key")));
}

async fn only_a_bearer_key_with_the_scope_moderates(stage: &Keys) {
    let body = json!({"input": "a"});
    let message =
        stage.app.call(&stage.console, Method::POST, MODERATIONS, &body).await.refused(403, "forbidden");
    assert_eq!(message, "this needs a bearer key with the scope moderate");
    let signed = stage.app.api_key(&stage.console).await;
    let message = signed.call(&stage.app, Method::POST, MODERATIONS, &body).await.refused(403, "forbidden");
    assert_eq!(message, "this needs a key with the scope moderate");
    let mcp = stage.app.bearer_key(&stage.console, &["mcp"]).await;
    stage.app.call(&mcp, Method::POST, MODERATIONS, &body).await.refused(403, "forbidden");
    let listed = stage.app.call(&stage.bearer, Method::GET, "/v1/objects", &Value::Null).await;
    listed.refused(403, "forbidden");
}
