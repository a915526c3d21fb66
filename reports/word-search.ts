/** Search of the experiment lists and the trial table: a row matches if it has every word. */

/**
 * Whether each word occurs in at least one of the texts, ignoring case.
 * @param words an empty list matches everything
 */
export function hasAllWords(
  words: readonly string[],
  texts: readonly (string | undefined)[],
): boolean {
  const text = texts.join(' ').toLowerCase()
  return words.every((word) => text.includes(word.toLowerCase()))
}

/** Splits the content of a search field into words. */
export const splitSearchField = (field: string): string[] => field.split(/\s+/).filter(Boolean)
