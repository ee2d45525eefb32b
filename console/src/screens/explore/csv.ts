// Objects as CSV (RFC 4180), for a spreadsheet.
import type { Summary } from "./objects";

/** A cell. What a spreadsheet would take for a formula is marked as text. */
function cell(value: string | number | undefined): string {
  if (value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const answerTo = (row: Summary, key: string): string | number | undefined => {
  const answer = row.analysis.find((candidate) => candidate.key === key);
  return answer?.noul ?? answer?.score ?? answer?.choice;
};

export function csvOf(rows: readonly Summary[], signals: readonly string[]): string {
  const head = ["object_id", "object_type", "display_name", "event_count", "last_seen", ...signals];
  const lines = rows.map((row) => [row.object_id, row.object_type, row.display_name, row.event_count, row.last_seen, ...signals.map((key) => answerTo(row, key))]);
  return [head, ...lines].map((line) => line.map((value) => cell(value ?? undefined)).join(",")).join("\r\n") + "\r\n";
}

/** Offers a text as a file. */
export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
