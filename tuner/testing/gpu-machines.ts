/** Machines with GPUs, as nvidia-smi and rocm-smi would tell of them: programs of those names in a folder to put on the PATH. No such GPU is needed, and none is tested. */
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
}

interface GpuMachine {
  readonly nvidia?: readonly NvidiaCard[]
  /** nvidia-smi fails with these words. */
  readonly nvidiaFails?: string
  readonly amd?: readonly { readonly series: string; readonly memoryMiB: number }[]
  /** A control daemon of MPS runs. */
  readonly mps?: boolean
}

const t4 = { name: 'Tesla T4', memoryMiB: 15360 }
const h100 = { name: 'NVIDIA H100 80GB HBM3', memoryMiB: 81559 }
const a100 = { name: 'NVIDIA A100-SXM4-40GB', memoryMiB: 40960 }
const a10 = { name: 'NVIDIA A10', memoryMiB: 23028 }

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
} as const satisfies Readonly<Record<string, GpuMachine>>

const uuidOf = (index: number) => `GPU-00000000-0000-0000-0000-${String(index).padStart(12, '0')}`
export const sliceUuid = (gpu: number, slice: number): string =>
  `MIG-00000000-0000-0000-0000-${String(100 * gpu + slice).padStart(12, '0')}`
export const gpuUuid = uuidOf

/**
 * Writes the programs below a folder.
 * @returns the environment in which a command sees the machine
 */
export function plantGpus(folder: string, machine: GpuMachine): Record<string, string> {
  const { nvidia, nvidiaFails, amd, mps } = machine as GpuMachine
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
  else if (nvidia !== undefined) program('nvidia-smi', nvidiaScript(nvidia))
  if (amd !== undefined) program('rocm-smi', `cat <<'END'\n${amdDocument(amd)}\nEND`)
  return { PATH: `${programs}:${process.env.PATH}`, CUDA_MPS_PIPE_DIRECTORY: pipes }
}

function nvidiaScript(cards: readonly NvidiaCard[]): string {
  const table = cards.map(({ name, memoryMiB, usedMiB = 3, mode = 'Default', slices }, i) =>
    [
      i,
      uuidOf(i),
      name,
      memoryMiB ?? '[N/A]',
      memoryMiB === undefined ? '[N/A]' : usedMiB,
      '570.86.15',
      mode,
      slices ? 'Enabled' : 'Disabled',
      '8.0',
    ].join(', '),
  )
  const list = cards.flatMap(({ name, slices = [] }, i) => [
    `GPU ${i}: ${name} (UUID: ${uuidOf(i)})`,
    ...slices.map((profile, j) => `  MIG ${profile.padEnd(12)} Device  ${j}: (UUID: ${sliceUuid(i, j)})`),
  ])
  return `case "$1" in
-L) cat <<'END'
${list.join('\n')}
END
;;
--query-compute-apps*) ;;
--query-gpu=utilization*) echo 50;;
*) cat <<'END'
${table.join('\n')}
END
;;
esac`
}

const amdDocument = (cards: readonly { readonly series: string; readonly memoryMiB: number }[]): string =>
  JSON.stringify({
    ...Object.fromEntries(
      cards.map(({ series, memoryMiB }, i) => [
        `card${i}`,
        {
          'Unique ID': `0x${i}a1b2c3d`,
          'VRAM Total Memory (B)': String(memoryMiB * 2 ** 20),
          'VRAM Total Used Memory (B)': '297361408',
          'Card Series': series,
          'GPU use (%)': '40',
        },
      ]),
    ),
    system: { 'Driver version': '6.10.5' },
  })
