/** Resolves `expect` and `golden`: which answers are correct. */
import { existsSync } from 'node:fs'
import { readText } from '../../../profiler/bounded-reader.ts'
import { type Expectation, parsePath } from '../../../profiler/protocols/expectations.ts'
import type { AnswerRules } from '../../../trials/launchers/checked-answers.ts'
import { type Context, shortenPath } from '../context.ts'

export function resolveAnswers(context: Pick<Context, 'entries' | 'report' | 'host'>): AnswerRules {
  const { entries, report } = context
  const { from, tolerance } = entries.golden
  const expect = Object.entries(entries.expect ?? {}).map(
    ([path, { value, tolerance }]): Expectation => {
      const at = ['expect', path]
      const steps = parsePath(path)
      if (steps === undefined || steps.length === 0)
        report(
          at,
          `'${path}' is not a path`,
          'write, for example, outputs.logits.data[0] or predictions[0].label',
        )
      if (value === undefined && tolerance === undefined)
        report(at, `neither a value nor a tolerance at ${path}`, 'add the expected value')
      return { path, value, tolerance }
    },
  )
  if (from !== 'first' && from !== 'off')
    return { expect, golden: readGoldenAnswers(context, from), tolerance }
  if (from === 'off' && expect.some(({ value }) => value === undefined))
    report(
      ['expect'],
      'a tolerance without a value, and no golden answers',
      'add the value, or remove golden: off',
    )
  return { expect, golden: from, tolerance }
}

function readGoldenAnswers(
  { report, host }: Pick<Context, 'report' | 'host'>,
  file: string,
): AnswerRules['golden'] {
  const hint =
    'write first, off, or a JSON Lines file with the complete answer to each request of the payload, in the same order'
  try {
    if (!existsSync(file)) throw new Error(`no file ${file}`)
    const lines = readText(file, 'data')
      .split('\n')
      .filter((line) => line.trim() !== '')
    if (lines.length === 0) throw new Error(`${file} is empty`)
    return {
      file,
      documents: lines.map((line, i) => parseLine(line, `${shortenPath(file, host)}:${i + 1}`)),
    }
  } catch (error) {
    report(['golden'], `golden answers: ${(error as Error).message}`, hint)
    return 'off'
  }
}

function parseLine(line: string, place: string): unknown {
  try {
    return JSON.parse(line)
  } catch (error) {
    throw new Error(`${place}: ${(error as Error).message}`)
  }
}
