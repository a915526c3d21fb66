/** Reads the AMD GPUs of this machine from rocm-smi. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { GpuFacts, GpuListing } from './nvidia-smi.ts'

const run = promisify(execFile)

/**
 * Lists every GPU by rocm-smi; empty if it is not installed.
 * @throws Error with rocm-smi's message if it fails
 */
export const listAmdGpus = async (program = 'rocm-smi'): Promise<GpuListing> => {
  try {
    return {
      gpus: parseAmdGpus(
        await runProgram(program, [
          '--showproductname',
          '--showuniqueid',
          '--showmeminfo',
          'vram',
          '--showdriverversion',
          '--json',
        ]),
      ),
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { gpus: [] }
    throw error
  }
}

/** Memory, utilisation and power of a whole AMD GPU: rocm-smi reports none by process. */
export const readAmdUse = async (
  index: number,
  program = 'rocm-smi',
): Promise<{ memoryMiB?: number; utilization?: number; gpuWatts?: number }> => {
  const cards = readCards(
    await runProgram(program, [
      '-d',
      String(index),
      '--showuse',
      '--showpower',
      '--showmeminfo',
      'vram',
      '--json',
    ]),
  )
  const card = cards.find((one) => one.index === index)
  const busy = parseNumber(card?.figure('gpu use (%)'))
  return {
    memoryMiB: parseMiB(card?.figure('vram total used memory (b)')),
    utilization: busy === undefined ? undefined : busy / 100,
    // The first of MI300 by ROCm 6, the second of cards before.
    gpuWatts: parseNumber(
      card?.figure('current socket graphics package power (w)') ??
        card?.figure('average graphics package power (w)'),
    ),
  }
}

/** Undefined for 'N/A', and for 'N/A (Secondary die)': the first die reports the power of both. */
const parseNumber = (text: string | undefined): number | undefined => {
  const value = Number.parseFloat(text ?? '')
  return Number.isFinite(value) ? value : undefined
}

/**
 * @param text `rocm-smi --showproductname --showuniqueid --showmeminfo vram --showdriverversion
 * --json`, ROCm 5 or 6
 */
export const parseAmdGpus = (text: string): GpuFacts[] => {
  const driver = /"Driver version"\s*:\s*"([^"]+)"/i.exec(text)?.[1] ?? 'unknown'
  return readCards(text).map(({ index, figure: of }) => ({
    vendor: 'amd',
    index,
    // Two dies of one package report the same 'Unique ID'.
    uuid: `AMD-${index}`,
    runtimeUuid: readRuntimeUuid(of('unique id')),
    name: readName(of),
    memoryMiB: parseMiB(of('vram total memory (b)')),
    usedMemoryMiB: parseMiB(of('vram total used memory (b)')) ?? 0,
    driver,
    computeMode: 'Default',
    migEnabled: false,
    migDevices: [],
  }))
}

/**
 * Formats the id as ROCr does (ROCR-Runtime, amd_filter_device.cpp): padded to 16 digits. 'N/A' and
 * 0 name nothing.
 */
const readRuntimeUuid = (uniqueId = ''): string | undefined => {
  const digits = /^0x0*([1-9a-f][0-9a-f]*)$/i.exec(uniqueId)?.[1]
  return digits && `GPU-${digits.toLowerCase().padStart(16, '0')}`
}

/**
 * Reads the board's name. Old releases report the chip with the board: 'Navi 31 [Radeon Pro
 * W7900]'; some report a number, or nothing.
 */
function readName(readFigure: Card['figure']): string {
  const boardName = [
    readFigure('card series'),
    readFigure('device name'),
    readFigure('card model'),
  ].find((name) => name !== undefined && !/^(0x[0-9a-f]+|N\/A)$/i.test(name))
  return (
    /\[(.+)\]$/.exec(boardName ?? '')?.[1] ?? boardName ?? readFigure('card model') ?? 'AMD GPU'
  )
}

const parseMiB = (bytes: string | undefined): number | undefined => {
  const value = parseNumber(bytes)
  return value === undefined ? undefined : Math.round(value / 2 ** 20)
}

/** A card's figures; releases differ in the case of their names ('Card series', 'Card Series'). */
interface Card {
  readonly index: number
  figure(name: string): string | undefined
}

/**
 * Empty without a JSON document.
 * @throws Error if the document is invalid
 */
const readCards = (text: string): Card[] => {
  // Warnings may precede and follow the document.
  const [document] = /^\{.*\}$/ms.exec(text) ?? []
  if (document === undefined) return []
  const cards = parseDocument(document)
  return Object.entries(cards).flatMap(([key, figures]) => {
    const index = /^card(\d+)$/.exec(key)?.[1]
    if (index === undefined) return []
    const byName = new Map(
      Object.entries(figures).map(([name, value]) => [name.toLowerCase(), String(value)]),
    )
    return [{ index: Number(index), figure: (name: string) => byName.get(name) }]
  })
}

const parseDocument = (document: string): Record<string, Record<string, string>> => {
  try {
    return JSON.parse(document)
  } catch (error) {
    throw new Error(`rocm-smi --json cannot be read: ${(error as Error).message}`)
  }
}

const runProgram = async (program: string, args: readonly string[]): Promise<string> => {
  try {
    const { stdout } = await run(program, args, { timeout: 20_000, killSignal: 'SIGKILL' })
    return stdout
  } catch (error) {
    const { stdout, stderr, code } = error as {
      stdout?: string
      stderr?: string
      code?: string | number
    }
    if (code === 'ENOENT') throw error
    throw new Error(
      `rocm-smi failed: ${stderr?.trim() || stdout?.trim() || (error as Error).message}`,
    )
  }
}
