/**
 * Splits a command as a shell would quote it, without a shell: no variables, no pipes, no globs.
 */
import { UnitError } from '../units.ts'

/**
 * `gunicorn --bind "127.0.0.1:${port}" app:app` → ['gunicorn', '--bind', '127.0.0.1:${port}',
 * 'app:app']. Single and double quotes group, a backslash outside single quotes takes the next
 * character as it is.
 * @throws UnitError for an unclosed quote or nothing at all.
 */
export function splitCommand(input: string | number): string[] {
  const words: string[] = []
  let word: string | undefined
  let quote = ''
  const letters = String(input)
  for (let i = 0; i < letters.length; i++) {
    const letter = letters[i]!
    if (letter === '\\' && quote !== "'" && i + 1 < letters.length)
      word = (word ?? '') + letters[++i]
    else if (quote) {
      if (letter === quote) quote = ''
      else word += letter
    } else if (letter === "'" || letter === '"') {
      quote = letter
      word ??= ''
    } else if (/\s/.test(letter)) {
      if (word !== undefined) words.push(word)
      word = undefined
    } else word = (word ?? '') + letter
  }
  if (quote)
    throw new UnitError(
      `the command has an unclosed ${quote}`,
      'close the quote, or write the command as a list',
    )
  if (word !== undefined) words.push(word)
  if (words.length === 0)
    throw new UnitError('the command is empty', 'write the program and its arguments')
  return words
}
