/** How a server is told over HTTP what to load, as Triton's model control has it: ours too. */

export const loadPath = (model: string): string =>
  `/v2/repository/models/${encodeURIComponent(model)}/load`

/** The server's own words in what it refuses with. */
export const errorIn = (text: string): string => {
  try {
    return String((JSON.parse(text) as { error?: unknown }).error ?? text)
  } catch {
    // Not JSON: the words as they are.
    return text
  }
}
