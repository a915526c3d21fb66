/** What rocm-smi says of the AMD GPUs of this machine. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { GpuFacts, GpuListing } from './nvidia-smi.ts'

const run = promisify(execFile)

/**
 * Asks rocm-smi for every GPU; none when it is not installed.
 * @throws Error with rocm-smi's own words when it is installed and fails
 */
export const listAmdGpus = async (program = 'rocm-smi'): Promise<GpuListing> => {
  try {
    return {
      gpus: parseAmdGpus(
        await ask(program, [
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

/** Memory, utilisation and power of a whole AMD GPU: rocm-smi tells none by process. */
export const amdUse = async (
  index: number,
  program = 'rocm-smi',
): Promise<{ memoryMiB?: number; utilization?: number; gpuWatts?: number }> => {
  const cards = readCards(
    await ask(program, [
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
  const busy = numberIn(card?.of('gpu use (%)'))
  return {
    memoryMiB: mib(card?.of('vram total used memory (b)')),
    utilization: busy === undefined ? undefined : busy / 100,
    // The first of MI300 by ROCm 6, the second of cards before.
    gpuWatts: numberIn(
      card?.of('current socket graphics package power (w)') ??
        card?.of('average graphics package power (w)'),
    ),
  }
}

/**
 * 'N/A' where the card does not tell; 'N/A (Secondary die)' of a package's power, which the first
 * die tells for both.
 */
const numberIn = (text: string | undefined): number | undefined => {
  const value = Number.parseFloat(text ?? '')
  return Number.isFinite(value) ? value : undefined
}

/** @param text `rocm-smi --showproductname --showuniqueid --showmeminfo vram --showdriverversion --json`, ROCm 5 or 6 */
export const parseAmdGpus = (text: string): GpuFacts[] => {
  const driver = /"Driver version"\s*:\s*"([^"]+)"/i.exec(text)?.[1] ?? 'unknown'
  return readCards(text).map(({ index, of }) => ({
    vendor: 'amd',
    index,
    // Two dies of one package tell the same 'Unique ID'.
    uuid: `AMD-${index}`,
    runtimeUuid: runtimeUuid(of('unique id')),
    name: nameOf(of),
    memoryMiB: mib(of('vram total memory (b)')),
    usedMemoryMiB: mib(of('vram total used memory (b)')) ?? 0,
    driver,
    computeMode: 'Default',
    migEnabled: false,
    migDevices: [],
  }))
}

/**
 * As ROCr writes it (ROCR-Runtime, amd_filter_device.cpp): padded to 16 digits; 'N/A' and 0 name
 * nothing.
 */
const runtimeUuid = (uniqueId = ''): string | undefined => {
  const digits = /^0x0*([1-9a-f][0-9a-f]*)$/i.exec(uniqueId)?.[1]
  return digits && `GPU-${digits.toLowerCase().padStart(16, '0')}`
}

/**
 * The board's name; by old releases that of the chip, with the board's behind: 'Navi 31 [Radeon Pro
 * W7900]'. Some tell a number, or nothing.
 */
function nameOf(of: Card['of']): string {
  const told = [of('card series'), of('device name'), of('card model')].find(
    (name) => name !== undefined && !/^(0x[0-9a-f]+|N\/A)$/i.test(name),
  )
  return /\[(.+)\]$/.exec(told ?? '')?.[1] ?? told ?? of('card model') ?? 'AMD GPU'
}

const mib = (bytes: string | undefined): number | undefined => {
  const value = numberIn(bytes)
  return value === undefined ? undefined : Math.round(value / 2 ** 20)
}

/** A card's figures; releases differ in the case of their names ('Card series', 'Card Series'). */
interface Card {
  readonly index: number
  of(name: string): string | undefined
}

/** @throws Error for what is no document of cards */
const readCards = (text: string): Card[] => {
  // Warnings may stand before the document, and after it.
  const [document] = /^\{.*\}$/ms.exec(text) ?? []
  if (document === undefined) return []
  const cards = parsed(document)
  return Object.entries(cards).flatMap(([key, figures]) => {
    const index = /^card(\d+)$/.exec(key)?.[1]
    if (index === undefined) return []
    const byName = new Map(
      Object.entries(figures).map(([name, value]) => [name.toLowerCase(), String(value)]),
    )
    return [{ index: Number(index), of: (name: string) => byName.get(name) }]
  })
}

const parsed = (document: string): Record<string, Record<string, string>> => {
  try {
    return JSON.parse(document)
  } catch (error) {
    throw new Error(`rocm-smi --json cannot be read: ${(error as Error).message}`)
  }
}

const ask = async (program: string, args: readonly string[]): Promise<string> => {
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
