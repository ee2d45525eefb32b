// The answers that a firing saw, in one line.

const oneOf = (value: unknown): string => {
  if (typeof value === "number") return String(Math.round(value * 1000) / 1000);
  return typeof value === "string" ? value : JSON.stringify(value);
};

export function valuesText(values: unknown): string {
  if (values === null || typeof values !== "object") return "";
  return Object.entries(values)
    .map(([signal, value]) => `${signal} ${oneOf(value)}`)
    .join(", ");
}
