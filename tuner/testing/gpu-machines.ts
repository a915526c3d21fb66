/**
 * Machines with GPUs, as nvidia-smi and rocm-smi would tell of them: programs of those names in a
 * folder to put on the PATH. No such GPU is needed, and none is tested.
 */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

interface NvidiaCard {
  readonly name: string
  /** Undefined: '[N/A]', as of a GPU whose memory is the machine's. */
  readonly memoryMiB?: number
  readonly usedMiB?: number
  readonly mode?: 'Default' | 'Exclusive_Process' | 'Prohibited'
  /** Profiles of its slices: MIG is on. */
  readonly slices?: readonly string[]
  readonly driver?: string
  /** Uncorrected errors of its memory. */
  readonly ecc?: number
  /** The GPU of a system on a chip: its UUID has no prefix, and most of its figures are '[N/A]'. */
  readonly onChip?: boolean
}

interface GpuMachine {
  readonly nvidia?: readonly NvidiaCard[]
  /** nvidia-smi fails with these words. */
  readonly nvidiaFails?: string
  /**
   * What nvidia-smi says of a GPU that fell off the bus: among the others' lines, and in place of
   * all of them where it is asked of all.
   */
  readonly nvidiaLost?: string
  readonly amd?: readonly { readonly series: string; readonly memoryMiB: number }[]
  /** A control daemon of MPS runs. */
  readonly mps?: boolean
}

const t4 = { name: 'Tesla T4', memoryMiB: 15360 }
const h100 = { name: 'NVIDIA H100 80GB HBM3', memoryMiB: 81559 }
const a100 = { name: 'NVIDIA A100-SXM4-40GB', memoryMiB: 40960 }
const a100of80 = { name: 'NVIDIA A100-SXM4-80GB', memoryMiB: 81920 }
const a10 = { name: 'NVIDIA A10', memoryMiB: 23028 }
const h200nvl = { name: 'NVIDIA H200 NVL', memoryMiB: 143771 }

export const gpuMachines = {
  a10: { nvidia: [a10] },
  h100: { nvidia: [h100] },
  migHalfSetUp: { nvidia: [{ ...a100, slices: [] }] },
  mig: { nvidia: [{ ...a100, slices: ['3g.20gb', '2g.10gb', '1g.5gb', '1g.5gb'] }] },
  twoT4: { nvidia: [t4, { ...t4, usedMiB: 9000 }] },
  rtx5090: { nvidia: [{ name: 'NVIDIA GeForce RTX 5090', memoryMiB: 32607 }] },
  unknown: { nvidia: [{ name: 'NVIDIA Zeta 9000', memoryMiB: 49140 }] },
  exclusive: { nvidia: [{ ...a10, mode: 'Exclusive_Process' }] },
  filled: { nvidia: [{ ...a10, usedMiB: 21000 }] },
  noDriver: {
    nvidiaFails:
      "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.",
  },
  mi300x: { amd: [{ series: 'AMD Instinct MI300X', memoryMiB: 196592 }] },
  eightH100: { nvidia: Array.from({ length: 8 }, () => h100) },
  mps: { nvidia: [a10], mps: true },
  migEngines: { nvidia: [{ ...h100, slices: ['1g.20gb', '1g.10gb+me'] }] },
  a10BesideUnknown: { nvidia: [a10, { name: 'NVIDIA Zeta 9000', memoryMiB: 49140 }] },
  a10BesideAmd: { nvidia: [a10], amd: [{ series: 'AMD Instinct MI300X OAM', memoryMiB: 196592 }] },
  sharedMemory: { nvidia: [{ name: 'NVIDIA GB10' }] },
  a100BesideMig: { nvidia: [a100, { ...a100, slices: ['1g.5gb'] }, t4] },
  h200nvlHalfSetUp: { nvidia: [h200nvl, { ...h200nvl, slices: [] }] },
  gh200: { nvidia: [{ name: 'NVIDIA GH200 480GB', memoryMiB: 97871 }] },
  b200: { nvidia: [{ name: 'NVIDIA B200', memoryMiB: 183359 }] },
  b200Mig: {
    nvidia: [
      {
        name: 'NVIDIA B200',
        memoryMiB: 183359,
        slices: ['3g.90gb', '2g.45gb', '1g.23gb', '1g.23gb+me'],
      },
    ],
  },
  // As some drivers call a whole one.
  gb200Mig: { nvidia: [{ name: 'NVIDIA GB200', memoryMiB: 189471, slices: ['7g.189gb'] }] },
  gb200Sliced: {
    nvidia: [
      { name: 'NVIDIA GB200', memoryMiB: 189471, slices: ['3g.95gb', '2g.61gb', '1g.23gb'] },
    ],
  },
  // As in a DGX Station, with less memory than others.
  gb300Sliced: { nvidia: [{ name: 'NVIDIA GB300', memoryMiB: 256703, slices: ['3g.126gb'] }] },
  rtx6000Ada: { nvidia: [{ name: 'NVIDIA RTX 6000 Ada Generation', memoryMiB: 49140 }] },
  l20: { nvidia: [{ name: 'NVIDIA L20', memoryMiB: 46068 }] },
  a16: { nvidia: Array.from({ length: 4 }, () => ({ name: 'NVIDIA A16', memoryMiB: 15356 })) },
  t4BesideA100: { nvidia: [t4, a100] },
  quadro: { nvidia: [{ name: 'Quadro RTX 4000', memoryMiB: 8192 }] },
  gb300: { nvidia: Array.from({ length: 4 }, () => ({ name: 'NVIDIA GB300', memoryMiB: 284208 })) },
  jetson: { nvidia: [{ name: 'Orin (nvgpu)', driver: '540.4.0', onChip: true }] },
  oldDriver: { nvidia: [{ ...t4, driver: '470.223.02' }] },
  eccErrors: { nvidia: [{ ...a10, ecc: 3 }] },
  lostGpu: {
    nvidia: [a10],
    nvidiaLost: 'Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error',
  },
  mixedMig: {
    nvidia: [
      { ...a100of80, slices: ['7g.80gb'] },
      { ...a100of80, slices: ['3g.40gb', '3g.40gb'] },
      { ...a100of80, slices: ['2g.20gb', '2g.20gb', '1c.2g.20gb', '1g.10gb+me'] },
      { ...a100of80, slices: [] },
      ...Array.from({ length: 4 }, () => a100of80),
    ],
  },
  // One package of two dies.
  mi250: {
    amd: Array.from({ length: 2 }, () => ({
      series: 'AMD INSTINCT MI250 (MCM) OAM AC MBA',
      memoryMiB: 65520,
    })),
  },
  twoMi300x: {
    amd: Array.from({ length: 2 }, () => ({ series: 'AMD Instinct MI300X', memoryMiB: 196592 })),
  },
  mi100: { amd: [{ series: 'Arcturus GL-XL [AMD Instinct MI100]', memoryMiB: 32752 }] },
  mi355x: { amd: [{ series: 'AMD Instinct MI355X', memoryMiB: 294896 }] },
  w7900: { amd: [{ series: 'Navi 31 [Radeon Pro W7900]', memoryMiB: 49136 }] },
  w7700: { amd: [{ series: 'Navi 32 [Radeon Pro W7700]', memoryMiB: 16368 }] },
} as const satisfies Readonly<Record<string, GpuMachine>>

const uuidOf = (index: number) => `GPU-00000000-0000-0000-0000-${String(index).padStart(12, '0')}`
export const sliceUuid = (gpu: number, slice: number): string =>
  `MIG-00000000-0000-0000-0000-${String(100 * gpu + slice).padStart(12, '0')}`
export const gpuUuid = uuidOf
/** What rocm-smi tells of an AMD GPU, in 16 digits; the dies of one package tell the same. */
export const amdUniqueId = (index: number): string => `719d230578348e${(0x8c + index).toString(16)}`

/**
 * Writes the programs below a folder.
 * @returns the environment in which a command sees the machine
 */
export function plantGpus(folder: string, machine: GpuMachine): Record<string, string> {
  const { nvidia, nvidiaFails, nvidiaLost, amd, mps } = machine as GpuMachine
  const programs = join(folder, 'smi')
  const pipes = join(folder, 'mps')
  mkdirSync(programs, { recursive: true })
  mkdirSync(pipes, { recursive: true })
  if (mps) writeFileSync(join(pipes, 'control'), '')
  const program = (name: string, script: string) => {
    writeFileSync(join(programs, name), `#!/bin/sh\n${script}\n`)
    chmodSync(join(programs, name), 0o755)
  }
  if (nvidiaFails !== undefined) program('nvidia-smi', `cat <<'END'\n${nvidiaFails}\nEND\nexit 9`)
  else if (nvidia !== undefined) program('nvidia-smi', nvidiaScript(nvidia, nvidiaLost))
  if (amd !== undefined) program('rocm-smi', `cat <<'END'\n${amdDocument(amd)}\nEND`)
  return { PATH: `${programs}:${process.env.PATH}`, CUDA_MPS_PIPE_DIRECTORY: pipes }
}

function nvidiaScript(cards: readonly NvidiaCard[], lost?: string): string {
  const uuid = ({ onChip }: NvidiaCard, i: number) =>
    onChip ? uuidOf(i).replace('GPU-', '') : uuidOf(i)
  const table = cards.map((card, i) => {
    const {
      name,
      memoryMiB,
      usedMiB = 3,
      slices,
      driver = '570.86.15',
      ecc = 0,
      onChip = false,
    } = card
    const mode = onChip ? '[N/A]' : (card.mode ?? 'Default')
    const mig = onChip ? '[N/A]' : slices ? 'Enabled' : 'Disabled'
    const [total, used] = memoryMiB === undefined ? ['[N/A]', '[N/A]'] : [memoryMiB, usedMiB]
    return [
      i,
      uuid(card, i),
      name,
      total,
      used,
      driver,
      mode,
      mig,
      '8.0',
      onChip ? '[N/A]' : ecc,
    ].join(', ')
  })
  const list = cards.flatMap((card, i) => [
    `GPU ${i}: ${card.name} (UUID: ${uuid(card, i)})`,
    ...(card.slices ?? []).map(
      (profile, j) => `  MIG ${profile.padEnd(12)} Device  ${j}: (UUID: ${sliceUuid(i, j)})`,
    ),
  ])
  const told = (lines: readonly string[]) => `cat <<'END'\n${lines.join('\n')}\nEND`
  const whole =
    lost === undefined
      ? told(table)
      : `case "$*" in *' -i '*) ${told(table)}\n;; *) echo '${lost}'; exit 255;; esac`
  return `case "$1" in
-L) ${told([...list, ...(lost === undefined ? [] : [lost])])}
;;
--query-compute-apps*) ;;
--query-gpu=utilization*) echo 50;;
*) ${whole}
;;
esac`
}

const amdDocument = (
  cards: readonly { readonly series: string; readonly memoryMiB: number }[],
): string =>
  JSON.stringify({
    ...Object.fromEntries(
      cards.map(({ series, memoryMiB }, i) => [
        `card${i}`,
        {
          'Unique ID': `0x${amdUniqueId(/MCM/.test(series) ? 0 : i)}`,
          'VRAM Total Memory (B)': String(memoryMiB * 2 ** 20),
          'VRAM Total Used Memory (B)': '297361408',
          'Card Series': series,
          'GPU use (%)': '40',
        },
      ]),
    ),
    system: { 'Driver version': '6.10.5' },
  })
