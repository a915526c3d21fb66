/** What rocm-smi says of the AMD GPUs of this machine. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { GpuFacts } from './nvidia-smi.ts'

const run = promisify(execFile)

/**
 * Asks rocm-smi for every GPU. [] when it is not installed.
 * @throws Error with rocm-smi's own words when it is installed and fails
 */
export const listAmdGpus = async (program = 'rocm-smi'): Promise<GpuFacts[]> => {
  try {
    return parseAmdGpus(
      await ask(program, ['--showproductname', '--showuniqueid', '--showmeminfo', 'vram', '--showdriverversion', '--json']),
    )
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

/** Memory and utilisation of a whole AMD GPU: rocm-smi tells neither by process. */
export const amdUse = async (index: number, program = 'rocm-smi'): Promise<{ memoryMiB?: number; utilization?: number }> => {
  const cards = readCards(await ask(program, ['-d', String(index), '--showuse', '--showmeminfo', 'vram', '--json']))
  const card = cards.find((one) => one.index === index)
  const busy = Number.parseFloat(card?.of('gpu use (%)') ?? '')
  const used = Number(card?.of('vram total used memory (b)'))
  return {
    memoryMiB: Number.isNaN(used) ? undefined : Math.round(used / 2 ** 20),
    utilization: Number.isNaN(busy) ? undefined : busy / 100,
  }
}

/** @param text `rocm-smi --showproductname --showuniqueid --showmeminfo vram --showdriverversion --json`, ROCm 5 or 6 */
export const parseAmdGpus = (text: string): GpuFacts[] => {
  const driver = /"Driver version"\s*:\s*"([^"]+)"/i.exec(text)?.[1] ?? 'unknown'
  return readCards(text).map(({ index, of }) => ({
    vendor: 'amd',
    index,
    uuid: `AMD-${of('unique id') ?? index}`,
    name: of('card series') ?? of('device name') ?? of('card model') ?? 'AMD GPU',
    memoryMiB: Math.round(Number(of('vram total memory (b)') ?? 0) / 2 ** 20),
    usedMemoryMiB: Math.round(Number(of('vram total used memory (b)') ?? 0) / 2 ** 20),
    driver,
    computeMode: 'Default',
    migEnabled: false,
    migDevices: [],
  }))
}

/** A card's figures; releases differ in the case of their names ('Card series', 'Card Series'). */
interface Card {
  readonly index: number
  of(name: string): string | undefined
}

const readCards = (text: string): Card[] => {
  // Warnings may stand before the document.
  const start = text.indexOf('{')
  if (start < 0) return []
  const cards = JSON.parse(text.slice(start)) as Record<string, Record<string, string>>
  return Object.entries(cards).flatMap(([key, figures]) => {
    const index = /^card(\d+)$/.exec(key)?.[1]
    if (index === undefined) return []
    const byName = new Map(Object.entries(figures).map(([name, value]) => [name.toLowerCase(), String(value)]))
    return [{ index: Number(index), of: (name: string) => byName.get(name) }]
  })
}

const ask = async (program: string, args: readonly string[]): Promise<string> => {
  try {
    const { stdout } = await run(program, args, { timeout: 20_000, killSignal: 'SIGKILL' })
    return stdout
  } catch (error) {
    const { stdout, stderr, code } = error as { stdout?: string; stderr?: string; code?: string | number }
    if (code === 'ENOENT') throw error
    throw new Error(`rocm-smi failed: ${stderr?.trim() || stdout?.trim() || (error as Error).message}`)
  }
}
