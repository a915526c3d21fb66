/** Parses `load.payload`: kinds of payload files, and items per request. */
import { existsSync, readdirSync, statSync } from 'node:fs'
import type { ItemCounts } from '../../../profiler/payload-source.ts'
import { detectContentType } from '../../../profiler/protocols/file-types.ts'
import { UnitError } from './units.ts'

const itemsHint =
  "write 4, 1..16 (uniform), '1, 2, 4', '1:70, 8:20, 32:10' (weights) or lognormal:4,0.6 (median, sigma)"
const payloadHint =
  'use JSON Lines (one request body per line), .txt (one text per line), a folder of JPEG and PNG files, or one file that is the whole request (.jpg, .wav, ...)'
const maxItems = 4096

/** '4', '1..16', '1, 2, 4', '1:70, 8:20, 32:10', 'lognormal:4,0.6'; throws a UnitError. */
export function parseItems(input: string | number): ItemCounts {
  const text = String(input).trim()
  const fail = (): never => {
    throw new UnitError(`'${input}' is not a number of items`, itemsHint)
  }
  const parseWholeNumber = (value: string) => {
    const items = /^\d+$/.test(value.trim()) ? Number(value) : Number.NaN
    return items >= 1 && items <= maxItems ? items : fail()
  }
  const tail = /^lognormal:\s*([\d.]+)\s*,\s*([\d.]+)$/.exec(text)
  if (tail) {
    const [median, sigma] = [Number(tail[1]), Number(tail[2])]
    return median > 0 && sigma >= 0 ? { kind: 'lognormal', median, sigma } : fail()
  }
  const range = text.split('..')
  if (range.length === 2) {
    const [from, to] = range.map(parseWholeNumber) as [number, number]
    return from <= to ? { kind: 'uniform', from, to } : fail()
  }
  const parts = text.split(',').map((part) => part.trim().split(':'))
  if (parts.length === 1 && parts[0]!.length === 1)
    return { kind: 'fixed', items: parseWholeNumber(text) }
  const weights = parts.map(([, weight, ...more]) => {
    const share = weight === undefined ? 1 : Number(weight.replace(/%$/, ''))
    return weight !== '' && more.length === 0 && share > 0 && Number.isFinite(share)
      ? share
      : fail()
  })
  return { kind: 'weighted', items: parts.map(([items = '']) => parseWholeNumber(items)), weights }
}

/** Inverse of `parseItems`. */
export function formatItems(counts: ItemCounts): string {
  switch (counts.kind) {
    case 'fixed':
      return String(counts.items)
    case 'uniform':
      return `${counts.from}..${counts.to}`
    case 'lognormal':
      return `lognormal:${counts.median},${counts.sigma}`
    case 'weighted':
      return counts.items.map((items, i) => `${items}:${counts.weights[i]}`).join(', ')
  }
}

/**
 * Kind of payload at a path.
 * @throws UnitError if it holds none
 */
export function detectPayloadKind(path: string): 'file' | 'texts' | 'images' {
  if (!existsSync(path)) throw new UnitError(`no payload file ${path}`, payloadHint)
  const about = statSync(path)
  if (about.isDirectory()) {
    if (!readdirSync(path).some((name) => /\.(jpe?g|png)$/i.test(name)))
      throw new UnitError(`${path} contains no images`, payloadHint)
    return 'images'
  }
  if (!about.isFile()) throw new UnitError(`${path} is not a file`, payloadHint)
  if (about.size === 0) throw new UnitError(`the payload file ${path} is empty`, payloadHint)
  return /\.txt$/i.test(path) ? 'texts' : 'file'
}

/** Kind of a missing payload, guessed from its name. */
export const guessPayloadKind = (path: string): ReturnType<typeof detectPayloadKind> =>
  /\.txt$/i.test(path) ? 'texts' : /\.\w+$/.test(path) ? 'file' : 'images'

/**
 * Content type of a file that is one whole request; undefined for a file of several requests.
 * @param said the user's content type, for names without a known extension
 */
export const resolveContentType = (path: string, said: string | undefined): string | undefined =>
  /\.jsonl?$|\.ndjson$/i.test(path) ? undefined : (said ?? detectContentType(path))
