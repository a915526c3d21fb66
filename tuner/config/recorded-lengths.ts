/**
 * Reads token counts of recorded requests to language models: a CSV with a header, or JSON Lines of
 * a public trace.
 */
import type { RecordedPrompt } from '../../profiler/prompt-spec.ts'
import { isUnknown } from '../../trials/table-text.ts'
import { isRequestTrace, readRequestTrace } from './request-trace.ts'
import { readTraceRows } from './trace-rows.ts'
import { UnitError } from './values/units.ts'

/**
 * Column names, in lower case without spaces and underscores: tune's own, Azure's LLM inference
 * traces, BurstGPT, Mooncake.
 */
const inputNames = ['inputtokens', 'contexttokens', 'requesttokens', 'prompttokens', 'inputlength']
const outputNames = [
  'outputtokens',
  'generatedtokens',
  'responsetokens',
  'completiontokens',
  'outputlength',
]
const hint =
  'use a CSV with columns inputTokens,outputTokens, or ContextTokens,GeneratedTokens as in the Azure LLM inference traces, or JSON Lines as in Mooncake traces'
/** Lengths beyond this many are ignored; the recorded ones repeat from the start. */
const maxLengths = 20_000

/** Indices of the columns of input and output tokens; -1 for a missing one. */
export function findLengthColumns(
  header: readonly string[],
): readonly [input: number, output: number] {
  const names = header.map((cell) => cell.toLowerCase().replace(/[\s_"]/g, ''))
  const findColumn = (known: readonly string[]) => names.findIndex((name) => known.includes(name))
  return [findColumn(inputNames), findColumn(outputNames)]
}

/** Failed requests are recorded without tokens. */
export const hasNoTokens = (cell: string | undefined): boolean =>
  isUnknown(cell) || Number(cell) === 0

/**
 * [input, output] tokens of each line, in order, at most 20,000. Failed requests, whose lines have
 * no tokens, are left out.
 * @throws UnitError that names the line
 */
export function readLengths(path: string, shown: string): RecordedPrompt[] {
  // The unit of the times does not matter here.
  if (isRequestTrace(path))
    return readRequestTrace(path, shown, 'ms')
      .requests.slice(0, maxLengths)
      .map(({ prompt }) => prompt)
  const [header, ...rows] = readTraceRows(path, shown, 'lengths', hint)
  const [input, output] = findLengthColumns(header?.cells ?? [])
  if (input < 0 || output < 0)
    throw new UnitError(`${shown} has no column of ${input < 0 ? 'input' : 'output'} tokens`, hint)
  const lengths: RecordedPrompt[] = []
  for (const { where, cells } of rows) {
    if (lengths.length === maxLengths) break
    const pair = [cells[input], cells[output]].map((cell) => {
      if (hasNoTokens(cell)) return 0
      if (!/^\d+(\.0+)?$/.test(cell!))
        throw new UnitError(`${where}: '${cell}' is not a number of tokens`, hint)
      return Number(cell)
    }) as [number, number]
    if (pair[0] > 0 && pair[1] > 0) lengths.push(pair)
  }
  if (lengths.length === 0)
    throw new UnitError(`${shown} has no request with tokens on both sides`, hint)
  return lengths
}
