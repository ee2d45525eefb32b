use super::*;

fn mapping(columns: &[&str], values: &[&str]) -> Mapping {
    let pairs = |texts: &[&str]| texts.iter().map(|text| assignment(text).unwrap()).collect();
    Mapping { columns: pairs(columns), values: pairs(values) }
}

fn events(header: &str, mapping: &Mapping) -> Result<EventColumns, String> {
    EventColumns::new(header.as_bytes(), b',', mapping)
}

#[test]
fn columns_are_found_by_name_or_by_mapping() {
    let header = "\u{feff}User,Text,Seen,Price,City\r\n";
    let given = mapping(
        &["object_id=User", "content=Text", "occurred_at=Seen", "metadata.price=Price", "metadata.city=City"],
        &["object_type=user"],
    );
    let columns = events(header, &given).unwrap();
    let line = columns.parse("u1,\"Hi, there\",2026-01-31 12:00,\"1,50\",\r\n".as_bytes()).unwrap().unwrap();
    assert_eq!((line.object_id.as_str(), line.object_type.as_deref()), ("u1", Some("user")));
    let event = &line.events[0];
    assert_eq!((event.kind, event.content.as_deref()), (EventType::Message, Some("Hi, there")));
    assert_eq!(event.metadata.as_ref().unwrap().get(), r#"{"price":"1,50"}"#, "an empty cell says nothing");
    assert_eq!(event.occurred_at.unwrap().to_string(), "2026-01-31T12:00:00.000000Z");
    let line = columns.parse(b"u1,,,,\r\n").unwrap().unwrap();
    assert_eq!(line.events[0].kind, EventType::Event, "without content it is an event");
    assert!(columns.parse(b"\r\n").unwrap().is_none());
}

#[test]
fn an_export_is_read_without_a_mapping_and_its_texts_are_unchanged() {
    let header = "object_id,object_type,seq,type,name,content,metadata,occurred_at,received_at,cursor\r\n";
    let columns = events(header, &Mapping::default()).unwrap();
    let row = "'=o,user,1,message,''=n,'quoted',\"{\"\"a\"\": 1}\",2026-01-01T00:00:00.000000Z,2026-01-01T00:00:00.000000Z,abc\r\n";
    let line = columns.parse(row.as_bytes()).unwrap().unwrap();
    let event = &line.events[0];
    assert_eq!((line.object_id.as_str(), event.name.as_deref()), ("=o", Some("'=n")));
    assert_eq!(event.content.as_deref(), Some("'quoted'"));
    assert_eq!(event.metadata.as_ref().unwrap().get(), r#"{"a": 1}"#);
    // A file of somebody else is taken at its word.
    let columns = events("object_id,content\r\n", &Mapping::default()).unwrap();
    let line = columns.parse(b"a,'=b\r\n").unwrap().unwrap();
    assert_eq!(line.events[0].content.as_deref(), Some("'=b"));
}

#[test]
fn what_does_not_fit_is_named() {
    for (header, columns, values, reason) in [
        (
            "a,b\r\n",
            &[][..],
            &[][..],
            "there is no column \"object_id\": name one with --map object_id=COLUMN; there are: a, b",
        ),
        ("a,b\r\n", &["object_id=c"], &[], "there is no column \"c\"; there are: a, b"),
        ("a,a\r\n", &["object_id=a"], &[], "two columns are called \"a\""),
        ("object_id\r\n", &["colour=object_id"], &[], "there is no field \"colour\"; there are: object_id, "),
        ("object_id\r\n", &[], &["signal=x"], "there is no field \"signal\""),
    ] {
        let refused = events(header, &mapping(columns, values)).err().unwrap();
        assert!(refused.starts_with(reason), "{refused}");
    }
    let columns = events("object_id,type,metadata,occurred_at\r\n", &Mapping::default()).unwrap();
    for (line, reason) in [
        ("a,event\r\n", "it has 2 cells, and the header has 4"),
        (",event,,\r\n", "object_id: it is empty"),
        ("a,story,,\r\n", "type: it must be one of: event, message"),
        ("a,event,[],\r\n", "metadata: it must be an object"),
        ("a,event,{,\r\n", "metadata: it must be a JSON object"),
        ("a,event,,tomorrow\r\n", "occurred_at: it must be a time"),
        ("\"a\"b,event,,\r\n", "text follows a closing quote"),
    ] {
        let refused = columns.parse(line.as_bytes()).err().unwrap();
        assert!(refused.contains(reason), "{refused}");
    }
}

#[test]
fn labels_are_read_by_the_types_of_their_signals() {
    let signals = [
        ("is_scammer", SignalType::Noul),
        ("trust_score", SignalType::Score),
        ("answer", SignalType::Choice),
    ];
    let signals: BTreeMap<String, SignalType> =
        signals.into_iter().map(|(key, kind)| (key.to_owned(), kind)).collect();
    let columns = |header: &str, mapping: &Mapping| {
        LabelColumns::new(header.as_bytes(), b';', mapping, signals.clone())
    };
    let labels = columns("object_id;signal;value;note\n", &Mapping::default()).unwrap();
    for (line, value) in [
        ("a;is_scammer;true;\n", Value::Bool(true)),
        ("a;is_scammer;No;\n", Value::Bool(false)),
        ("a;trust_score;2;why\n", Value::from(2)),
        ("a;answer;true;\n", Value::from("true")),
    ] {
        assert_eq!(labels.parse(line.as_bytes()).unwrap().unwrap().value, value, "{line}");
    }
    for (line, reason) in [
        ("a;is_scammer;maybe;\n", "value: it must be true or false"),
        ("a;trust_score;high;\n", "value: it must be the index of a level, from 0"),
        ("a;unknown;1;\n", "signal: there is no signal \"unknown\""),
        ("a;answer;;\n", "value: it is empty"),
    ] {
        assert_eq!(labels.parse(line.as_bytes()).unwrap_err(), reason);
    }
    let given = mapping(&["value=scam"], &["signal=is_scammer"]);
    let labels = columns("object_id;scam\n", &given).unwrap();
    assert_eq!(labels.parse(b"a;1\n").unwrap().unwrap().signal, "is_scammer");
}
