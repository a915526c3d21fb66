/** Lengths of recorded requests to language models: a CSV with a header, as public traces have it. */
import { readRows } from './delimited.ts'
import { UnitError } from './units.ts'

/** Headers, in lower case and without spaces and underscores: this product's own, Azure's LLM inference traces, BurstGPT, Mooncake. */
const inputNames = ['inputtokens', 'contexttokens', 'requesttokens', 'prompttokens', 'inputlength']
const outputNames = ['outputtokens', 'generatedtokens', 'responsetokens', 'completiontokens', 'outputlength']
const hint = 'a CSV with columns inputTokens,outputTokens, or ContextTokens,GeneratedTokens as in the Azure LLM inference traces'
/** More are not needed: lengths repeat from the start. */
const most = 20_000

/**
 * [input, output] tokens of each line, in order, the first 20,000; lines with 0 tokens on either side are left out, as failed requests are recorded so.
 * @throws UnitError that names the line
 */
export function readLengths(path: string, shown: string): (readonly [number, number])[] {
  const rows = readRows(path, 'lengths', hint)
  const names = rows[0]!.map((cell) => cell.toLowerCase().replace(/[\s_"]/g, ''))
  const [input, output] = [inputNames, outputNames].map((known) => names.findIndex((name) => known.includes(name))) as [number, number]
  if (input < 0 || output < 0) throw new UnitError(`${shown} has no column of ${input < 0 ? 'input' : 'output'} tokens`, hint)
  const lengths: (readonly [number, number])[] = []
  for (let i = 1; i < rows.length && lengths.length < most; i++) {
    const row = rows[i]!
    if (row.every((cell) => cell === '')) continue
    const pair = [row[input], row[output]].map((cell) => {
      if (!/^\d+(\.0+)?$/.test(cell ?? '')) throw new UnitError(`${shown}:${i + 1}: '${cell ?? ''}' is no number of tokens`, hint)
      return Number(cell)
    }) as [number, number]
    if (pair[0] > 0 && pair[1] > 0) lengths.push(pair)
  }
  if (lengths.length === 0) throw new UnitError(`${shown} has no request with tokens on both sides`, hint)
  return lengths
}
