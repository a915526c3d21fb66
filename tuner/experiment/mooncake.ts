/**
 * Traces of requests to language models in Mooncake's format (Qin et al., FAST 2025): JSON Lines of
 * {"timestamp": ms, "input_length", "output_length", "hash_ids"}, where each hash stands for a
 * block of 512 tokens and all before it: equal ones can be found in a cache of beginnings.
 */
import { z } from 'zod'
import { hintOf, readText } from '../../profiler/bounded-reader.ts'
import type { RecordedPrompt } from '../../profiler/prompt-spec.ts'
import { UnitError } from './units.ts'

interface RecordedRequest {
  readonly atMs: number
  readonly prompt: RecordedPrompt
}

const hint =
  'one request a line: {"timestamp": ms, "input_length": 512, "output_length": 64, "hash_ids": [0, 1]}, by time'
const tokens = z.number().int().min(0)
const line = z.object({
  timestamp: z.number().min(0),
  input_length: tokens,
  output_length: tokens,
  hash_ids: z.array(z.number().int().min(0)).optional(),
})

export const isMooncake = (path: string): boolean => path.endsWith('.jsonl')

/**
 * Requests in order; those without tokens on either side are left out, as failed ones are recorded
 * so.
 * @throws UnitError that names the line
 */
export function readMooncake(path: string, shown: string): RecordedRequest[] {
  let text: string
  try {
    text = readText(path, 'data')
  } catch (error) {
    throw new UnitError(
      `the trace cannot be read: ${(error as Error).message}`,
      hintOf(error) ?? hint,
    )
  }
  const requests: RecordedRequest[] = []
  for (const [i, written] of text.split('\n').entries()) {
    if (written.trim() === '') continue
    const { timestamp, input_length, output_length, hash_ids } = requestOf(
      written,
      `${shown}:${i + 1}`,
    )
    if (timestamp < (requests.at(-1)?.atMs ?? 0))
      throw new UnitError(
        `${shown}:${i + 1}: ${timestamp} is before the line above`,
        'sort its lines by time',
      )
    if (input_length === 0 || output_length === 0) continue
    requests.push({
      atMs: timestamp,
      prompt:
        hash_ids === undefined
          ? [input_length, output_length]
          : [input_length, output_length, hash_ids],
    })
  }
  if (requests.length === 0)
    throw new UnitError(`${shown} has no request with tokens on both sides`, hint)
  return requests
}

function requestOf(written: string, where: string): z.output<typeof line> {
  let document: unknown
  try {
    document = JSON.parse(written)
  } catch {
    throw new UnitError(`${where}: no JSON`, hint)
  }
  const read = line.safeParse(document)
  if (read.success) return read.data
  const { path, message } = read.error.issues[0]!
  throw new UnitError(`${where}: ${path.join('.') || 'the line'}: ${message}`, hint)
}
