// Objects as CSV (RFC 4180), for a spreadsheet.
import type { Summary } from "./objects";

/** A cell. What a spreadsheet would take for a formula is marked as text. */
function cell(value: string | number | undefined | null): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "number") return String(value);
  // As the service writes its exports: wide forms and line breaks count, and a text that begins with apostrophes before one gets one more.
  const text = /^'*[=+\-@\t\r\n＝＋－＠]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const line = (values: readonly (string | number | undefined | null)[]): string => `${values.map(cell).join(",")}\r\n`;

const answerTo = (row: Summary, key: string): string | number | undefined => {
  const answer = row.analysis.find((candidate) => candidate.key === key);
  return answer?.noul ?? answer?.score ?? answer?.choice;
};

export const csvHead = (signals: readonly string[]): string => line(["object_id", "object_type", "display_name", "event_count", "last_seen", ...signals]);

export const csvRows = (rows: readonly Summary[], signals: readonly string[]): string =>
  rows.map((row) => line([row.object_id, row.object_type, row.display_name, row.event_count, row.last_seen, ...signals.map((key) => answerTo(row, key))])).join("");

/** Offers a file. */
export function download(name: string, file: Blob): void {
  const url = URL.createObjectURL(file);
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
