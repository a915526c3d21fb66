/** Files that an experiment names: price book, arrival trace, payload. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import type { Arrivals, PayloadSource } from '../../profiler/types.ts'
import type { Architecture } from '../../trials/devices/architecture.ts'
import type { Gpu } from '../../trials/devices/catalogue.ts'
import { parseArchitecture, parseGpus } from '../../trials/devices/own.ts'
import { defaultPriceBook, type PriceBook } from '../../trials/prices/book.ts'
import { parsePriceBook } from '../../trials/prices/parse.ts'
import { YamlFileError } from '../../trials/yaml.ts'
import type { Context, FileContext } from './context.ts'
import { defaults } from './names.ts'
import { promptsOf } from './prompts.ts'
import type { Path } from './yaml-file.ts'

/** @returns undefined where the file cannot be used, which is reported */
export function resolveGpus({ entries, report, pathAt }: FileContext): { gpus: readonly Gpu[]; path?: string } | undefined {
  if (entries.gpuCatalogue === undefined) return { gpus: [] }
  const path = pathAt(['gpuCatalogue'], entries.gpuCatalogue)
  try {
    return { gpus: parseGpus(readFileSync(path, 'utf8'), entries.gpuCatalogue), path }
  } catch (error) {
    if (error instanceof YamlFileError) for (const problem of error.problems) report(['gpuCatalogue'], `GPU file ${problem}`, '')
    else
      report(
        ['gpuCatalogue'],
        `the GPU file cannot be read: ${(error as Error).message}`,
        'YAML: NAME: {memoryGiB: 16, bandwidthGBs: 500, peakTflops: {fp32: 20, fp16: 80}}',
      )
    return undefined
  }
}

/**
 * The architecture of a file of dimensions.
 * @param name what it goes by
 * @returns undefined where the file cannot be used, which is reported
 */
export function resolveArchitecture({ report }: FileContext, path: string, shown: string, name: string): Architecture | undefined {
  const at = ['model', 'architecture']
  try {
    return parseArchitecture(readFileSync(path, 'utf8'), shown, name)
  } catch (error) {
    if (error instanceof YamlFileError) for (const problem of error.problems) report(at, `architecture file ${problem}`, '')
    else
      report(
        at,
        `the architecture file cannot be read: ${(error as Error).message}`,
        "a transformer's config.json, or its dimensions in YAML",
      )
    return undefined
  }
}

export function resolvePrices({ entries, report, pathAt, own }: Context): { book: PriceBook; path?: string } {
  if (entries.prices === undefined) return { book: defaultPriceBook }
  const path = pathAt(['prices'], entries.prices)
  try {
    return { book: parsePriceBook(readFileSync(path, 'utf8'), entries.prices, own.gpus), path }
  } catch (error) {
    if (error instanceof YamlFileError) for (const problem of error.problems) report(['prices'], `price book ${problem}`, '')
    else
      report(
        ['prices'],
        `the price book cannot be read: ${(error as Error).message}`,
        'check the path; leave it out for on-demand list prices',
      )
    return { book: defaultPriceBook, path }
  }
}

/** @returns the arrivals, and the absolute path of the trace they were read from */
export function resolveArrivals({ entries, report, pathAt }: Context): { arrivals: Arrivals; tracePath?: string } {
  const given = entries.load?.arrivals ?? { kind: 'poisson' as const }
  if (given.kind === 'on-off') return { arrivals: { kind: 'on-off', onS: given.on / 1000, offS: given.off / 1000 } }
  if (given.kind !== 'trace') return { arrivals: given }
  const tracePath = pathAt(['load', 'arrivals'], given.file)
  const at: Path = ['load', 'arrivals']
  let text = ''
  try {
    text = readFileSync(tracePath, 'utf8')
  } catch (error) {
    report(at, `the trace cannot be read: ${(error as Error).message}`, 'a text file, one arrival a line in ms from the start, ascending')
    return { arrivals: { kind: 'trace', atMs: [] } }
  }
  const atMs: number[] = []
  for (const [i, line] of text.split(/\r?\n/).entries()) {
    const first = line.split(/[,;\t]/)[0]!.trim()
    if (first === '' || (i === 0 && !Number.isFinite(Number(first)))) continue
    const value = Number(first)
    const wrong =
      !Number.isFinite(value) || value < 0 ? 'is no time in ms' : atMs.length > 0 && value < atMs.at(-1)! ? 'is before the line above' : ''
    if (wrong) {
      report(at, `${given.file}:${i + 1}: '${first}' ${wrong}`, 'one arrival a line in ms from the start, ascending')
      return { arrivals: { kind: 'trace', atMs: [] } }
    }
    atMs.push(value)
  }
  if (atMs.length < 2) report(at, `the trace ${given.file} has ${atMs.length} arrivals`, 'give at least two')
  return { arrivals: { kind: 'trace', atMs }, tracePath }
}

export function resolvePayload({ entries, report, pathAt }: Context): PayloadSource {
  const given = entries.load?.payload ?? {}
  const seed = entries.seed ?? defaults.seed
  const prompts = promptsOf(given)
  if (given.file === undefined) return { kind: 'generated', seed, count: given.count ?? defaults.payloadCount, ...(prompts && { prompts }) }
  if (prompts !== undefined) report(['load', 'payload'], 'lengths of prompts beside a file of them', 'keep one of the two')
  if (given.count !== undefined) report(['load', 'payload', 'count'], 'a count of bodies beside a file of them', 'keep one of the two')
  const path = pathAt(['load', 'payload'], given.file)
  if (!existsSync(path) || !statSync(path).isFile())
    report(['load', 'payload'], `no payload file ${path}`, 'JSON Lines, one request body a line')
  else if (statSync(path).size === 0)
    report(['load', 'payload'], `the payload file ${path} is empty`, 'JSON Lines, one request body a line')
  return { kind: 'file', path }
}
