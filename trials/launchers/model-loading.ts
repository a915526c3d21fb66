/** Triton's model control over HTTP, which the built-in predictor also implements. */

export const getModelLoadPath = (model: string): string =>
  `/v2/repository/models/${encodeURIComponent(model)}/load`

/** Reads the message of an error response. */
export const readErrorMessage = (text: string): string => {
  try {
    return String((JSON.parse(text) as { error?: unknown }).error ?? text)
  } catch {
    // Not JSON: return the text.
    return text
  }
}
