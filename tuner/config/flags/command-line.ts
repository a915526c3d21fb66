/** Commands as flags and experiment files have them: one text, split as a shell would. */
import { type Expand, ShellError, splitWords } from '../../../trials/shell-words.ts'
import { UnitError } from '../units.ts'

/**
 * `gunicorn --bind "127.0.0.1:${port}" app:app` → ['gunicorn', '--bind', '127.0.0.1:${port}',
 * 'app:app']. $PORT and ${PORT:-8000} are the trial's port; other ${names} stay for the trial.
 * @throws UnitError for what only a shell can do, an unclosed quote or nothing at all.
 */
export function splitCommand(input: string | number): string[] {
  try {
    return [...splitWords(String(input), expand)]
  } catch (error) {
    if (!(error instanceof ShellError)) throw error
    throw new UnitError(error.message, error.hint)
  }
}

const expand: Expand = ({ name, text }) => {
  if (name === 'PORT') return '${port}'
  if (text.startsWith('${')) return text
  throw new ShellError(
    `the command uses the variable $${name}, but tune runs it without a shell`,
    `write its value, or run the command in a shell: [sh, -c, 'exec ... $${name}']`,
  )
}
