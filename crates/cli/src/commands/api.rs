//! `auspex api`: any call, for what has no command of its own.

use clap::Args;
use client::{Call, Method};

use crate::context::{Common, Context};
use crate::data::Data;
use crate::failure::Failure;

/// Makes a call.
#[derive(Args)]
#[command(after_help = "The path is escaped, as in a URL; the response is printed as it is.

Examples:
  auspex api GET /v1/me
  auspex api GET '/v1/objects?q=is_scammer > 0.5&limit=1'
  auspex api PATCH /v1/settings -d '{\"auto_backfill_signals\": true}'
  echo '{\"when\": \"is_scammer > 0.5\"}' | auspex api POST /v1/conditions/check -d -")]
pub struct Arguments {
    /// GET, POST, PUT, PATCH or DELETE.
    method: String,
    /// The path with its query, such as `/v1/objects?limit=1`.
    path: String,
    /// The body: JSON, `@FILE`, or `-` for standard input.
    #[arg(short, long, value_name = "JSON")]
    data: Option<Data>,
}

impl Arguments {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let method: Method = self
            .method
            .to_ascii_uppercase()
            .parse()
            .map_err(|_| Failure::Usage(format!("{:?} is not a method of HTTP", self.method)))?;
        let mut call = Call::to_target(method, &self.path)?;
        if let Some(data) = &self.data {
            call = call.json(data.raw())?;
        }
        let context = Context::new(common)?;
        let response = context.client.request(call).await?;
        context.output.document(&response.body)
    }
}
