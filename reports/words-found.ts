/** Search by words, as lists of experiments and the table of trials do. */

/**
 * Whether every word stands in something of what is said, whatever its case.
 * @param words none: yes
 */
export function hasAllWords(
  words: readonly string[],
  said: readonly (string | undefined)[],
): boolean {
  const text = said.join(' ').toLowerCase()
  return words.every((word) => text.includes(word.toLowerCase()))
}

/** The words of a search field. */
export const splitSearchField = (field: string): string[] => field.split(/\s+/).filter(Boolean)
