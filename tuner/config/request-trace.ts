/**
 * Recorded requests to language models as JSON Lines of {"timestamp", "input_length",
 * "output_length", "hash_ids"}. A hash stands for a block of prompt tokens and all before it: equal
 * hashes can be found in a prefix cache. Two public formats share these names:
 * - Mooncake (Qin et al., FAST 2025): times in ms, whole numbers, blocks of 512 tokens;
 * - Bailian (Wang et al., ATC 2025): times in seconds, blocks of 16 tokens, with a chat_id.
 */
import { z } from 'zod'
import { getHint, readText } from '../../profiler/bounded-reader.ts'
import { type RecordedPrompt, recordedBlockTokens } from '../../profiler/prompt-spec.ts'
import { millisecondsPer, type TimeUnit } from './values/time-unit.ts'
import { UnitError } from './values/units.ts'

interface RecordedRequest {
  readonly atMs: number
  readonly prompt: RecordedPrompt
}

interface RequestTrace {
  readonly requests: readonly RecordedRequest[]
  /** The unit of its times and where it comes from: 'ms (Mooncake)'. */
  readonly readAs: string
}

const hint =
  'write one request per line, sorted by time: {"timestamp": ms, "input_length": 512, "output_length": 64, "hash_ids": [0, 1]}'
const tokens = z.number().int().min(0)
const lineSchema = z.object({
  timestamp: z.number().min(0),
  input_length: tokens,
  output_length: tokens,
  hash_ids: z.array(z.number().int().min(0)).optional(),
  chat_id: z.unknown().optional(),
})
type Line = z.output<typeof lineSchema>

export const isRequestTrace = (path: string): boolean => path.endsWith('.jsonl')

/**
 * Requests in order. Failed requests, which have no tokens, are left out.
 * @param unit of the times; default: detected from the file
 * @throws UnitError that names the line, or asks for the unit
 */
export function readRequestTrace(path: string, shown: string, unit?: TimeUnit): RequestTrace {
  const lines = readLines(path, shown)
  if (!lines.some(({ input_length, output_length }) => input_length > 0 && output_length > 0))
    throw new UnitError(`${shown} has no request with tokens on both sides`, hint)
  const blockTokens = findBlockTokens(lines, shown)
  const { scale, readAs } = findTimeUnit(lines, shown, blockTokens, unit)
  const requests = lines.flatMap(({ timestamp, input_length, output_length, hash_ids }) =>
    input_length === 0 || output_length === 0
      ? []
      : [
          {
            atMs: timestamp * scale,
            prompt: createPrompt(input_length, output_length, hash_ids, blockTokens),
          },
        ],
  )
  return { requests, readAs }
}

const createPrompt = (
  input: number,
  output: number,
  blocks: readonly number[] | undefined,
  blockTokens: number,
): RecordedPrompt =>
  blocks === undefined
    ? [input, output]
    : blockTokens === recordedBlockTokens
      ? [input, output, blocks]
      : [input, output, blocks, blockTokens]

function readLines(path: string, shown: string): Line[] {
  let text: string
  try {
    text = readText(path, 'data')
  } catch (error) {
    throw new UnitError(
      `cannot read the trace: ${(error as Error).message}`,
      getHint(error) ?? hint,
    )
  }
  const lines: Line[] = []
  for (const [i, written] of text.split('\n').entries()) {
    if (written.trim() === '') continue
    const line = parseLine(written, `${shown}:${i + 1}`)
    if (line.timestamp < (lines.at(-1)?.timestamp ?? 0))
      throw new UnitError(
        `${shown}:${i + 1}: ${line.timestamp} is before the line above`,
        'sort its lines by time',
      )
    lines.push(line)
  }
  return lines
}

function parseLine(written: string, where: string): Line {
  let document: unknown
  try {
    document = JSON.parse(written)
  } catch {
    throw new UnitError(`${where}: not JSON`, hint)
  }
  const read = lineSchema.safeParse(document)
  if (read.success) return read.data
  const { path, message } = read.error.issues[0]!
  throw new UnitError(`${where}: ${path.join('.') || 'the line'}: ${message}`, hint)
}

/** Block sizes of prefix caches: Bailian and vLLM 16, SGLang and others up to Mooncake's 512. */
const blockSizes = [512, 16, 32, 64, 128, 256, 1024]

/**
 * Tokens of a block: the size at which every request has as many blocks as its tokens fill. A file
 * that records fewer blocks than that is Mooncake's, whose size no request may exceed.
 */
function findBlockTokens(lines: readonly Line[], shown: string): number {
  const recorded = lines.filter(({ hash_ids = [] }) => hash_ids.length > 0)
  const fits = (size: number, count: (blocks: number, filled: number) => boolean) =>
    recorded.every(({ input_length, hash_ids }) =>
      count(hash_ids!.length, Math.ceil(input_length / size)),
    )
  const exact = blockSizes.find((size) => fits(size, (blocks, filled) => blocks === filled))
  if (exact !== undefined) return exact
  if (fits(recordedBlockTokens, (blocks, filled) => blocks <= filled)) return recordedBlockTokens
  const excess = recorded.find(
    ({ input_length, hash_ids }) => hash_ids!.length > Math.ceil(input_length / 16),
  )
  const { input_length, hash_ids } = excess ?? recorded[0]!
  throw new UnitError(
    `${shown}: hash_ids match none of the block sizes ${[...blockSizes].sort((a, b) => a - b).join(', ')} tokens (a request of ${input_length} tokens has ${hash_ids!.length} blocks)`,
    'leave hash_ids out, or write one hash for each block of 512 tokens',
  )
}

function findTimeUnit(
  lines: readonly Line[],
  shown: string,
  blockTokens: number,
  unit: TimeUnit | undefined,
): { readonly scale: number; readonly readAs: string } {
  if (unit !== undefined) return { scale: millisecondsPer[unit], readAs: `${unit} (as requested)` }
  if (lines.every(({ chat_id }) => chat_id !== undefined))
    return { scale: 1000, readAs: 's (Bailian: it has chat_id)' }
  const whole = lines.every(({ timestamp }) => Number.isInteger(timestamp))
  if (whole && blockTokens === recordedBlockTokens)
    return { scale: 1, readAs: 'ms (Mooncake: whole numbers)' }
  throw new UnitError(
    `${shown}: the unit of timestamp is unknown (${whole ? `blocks of ${blockTokens} tokens` : 'fractions'} are not Mooncake's)`,
    `set it: trace:${shown}:s for seconds, or :ms, :us, :ns`,
  )
}
