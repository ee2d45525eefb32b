//! Which language a comment is in. Nothing depends on it: clients of the Perspective API are told, as there.

use whatlang::{Detector, Lang};

/// The languages that are told apart, those of the Perspective API, by the tags that it gives them.
const LANGUAGES: [(Lang, &str); 17] = [
    (Lang::Ara, "ar"),
    (Lang::Ces, "cs"),
    (Lang::Cmn, "zh"),
    (Lang::Deu, "de"),
    (Lang::Eng, "en"),
    (Lang::Fra, "fr"),
    (Lang::Hin, "hi"),
    (Lang::Ind, "id"),
    (Lang::Ita, "it"),
    (Lang::Jpn, "ja"),
    (Lang::Kor, "ko"),
    (Lang::Nld, "nl"),
    (Lang::Pol, "pl"),
    (Lang::Por, "pt"),
    (Lang::Rus, "ru"),
    (Lang::Spa, "es"),
    (Lang::Swe, "sv"),
];
/// The tag of a language that is not known.
pub(super) const UNDETERMINED: &str = "und";

/// The tag of the language of a text; none if the text does not tell, which a short one seldom does.
pub(super) fn detect(text: &str) -> Option<&'static str> {
    let detector = Detector::with_allowlist(LANGUAGES.map(|(language, _)| language).to_vec());
    let found = detector.detect(text).filter(whatlang::Info::is_reliable)?.lang();
    LANGUAGES.iter().find(|(language, _)| *language == found).map(|(_, tag)| *tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_some_length_tell_their_language() {
        for (tag, text) in [
            (
                "en",
                "You are right about the trains, but nobody who waits in the cold wants to hear that again.",
            ),
            (
                "de",
                "Das ist doch nicht dein Ernst, so etwas schreibt man nicht über Leute, die man gar nicht kennt.",
            ),
            ("fr", "Je ne comprends pas pourquoi vous parlez ainsi de gens que vous ne connaissez même pas."),
            ("es", "No entiendo por qué habla usted así de personas a las que ni siquiera conoce de verdad."),
            ("ru", "Я не понимаю, почему вы так говорите о людях, которых совсем не знаете."),
            ("ja", "どうしてそんなひどいことを言うのですか。"),
            ("ko", "왜 그런 말을 하는지 모르겠어요."),
        ] {
            assert_eq!(detect(text), Some(tag), "{text}");
        }
    }

    #[test]
    fn what_tells_nothing_has_no_language() {
        for text in ["12345", "!!!", "ok", "😀"] {
            assert_eq!(detect(text), None, "{text}");
        }
    }
}
