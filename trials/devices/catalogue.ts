/**
 * The GPU catalogue: datasheet figures, dense (no sparsity) peaks, tensor cores where the GPU has
 * them. Source: vendor datasheets (NVIDIA product briefs and architecture white papers, AMD
 * Instinct and Intel data sheets); AWS g5 datasheet for the A10G. For AMD, a multiprocessor is a
 * compute unit; for Intel, an Xe core. `l2MiB` is the last-level cache. RTX cards and the A10G
 * accumulate fp16 in fp32 at half the tensor rate, and that is the rate listed.
 */

import { suggestNames } from '../near-names.ts'
import { DeviceModelError } from './device-model-error.ts'

export const precisions = ['fp32', 'tf32', 'fp16', 'bf16', 'int8', 'fp8'] as const
export type Precision = (typeof precisions)[number]

/**
 * How processes share one GPU. A share bounds memory and time slices, memory and multiprocessors
 * (MPS), or memory alone.
 */
export const sharings = ['time-slice', 'mps', 'memory-only'] as const
export type Sharing = (typeof sharings)[number]

export interface Gpu {
  /** Short and typable: 'T4', 'A100-80GB'. */
  readonly name: string
  readonly generation: string
  /**
   * Other names of the same device, including the one that nvidia-smi prints, without vendor and
   * product line.
   */
  readonly aliases: readonly string[]
  readonly multiprocessors: number
  readonly boostMhz: number
  /** Nominal size; `computeUsableMemoryMiB` returns what processes can allocate. */
  readonly memoryGiB: number
  readonly bandwidthGBs: number
  readonly l2MiB: number
  readonly tdpWatts: number
  /**
   * A custom GPU whose multiprocessors, clock, cache, power or generation are estimated from the
   * rest.
   */
  readonly hasEstimatedFigures?: boolean
  /** Process node that a GPU of unknown generation is assumed to have. */
  readonly processNm?: number
  /**
   * Dense peak, 10^12 operations per second. A missing precision is not supported by the hardware.
   */
  readonly peakTflops: Readonly<Partial<Record<Precision, number>>>
}

const gpu = (
  name: string,
  generation: string,
  aliases: readonly string[],
  multiprocessors: number,
  boostMhz: number,
  memoryGiB: number,
  bandwidthGBs: number,
  l2MiB: number,
  tdpWatts: number,
  peakTflops: Gpu['peakTflops'],
): Gpu => ({
  name,
  generation,
  aliases,
  multiprocessors,
  boostMhz,
  memoryGiB,
  bandwidthGBs,
  l2MiB,
  tdpWatts,
  peakTflops,
})

/**
 * A GeForce of Ampere or later: tensor cores at twice the fp32 rate in fp16 accumulated in fp32, at
 * eight times in int8, in fp8 (Ada on) at four times.
 */
const geforce = (
  name: string,
  generation: 'Ampere' | 'Ada' | 'Blackwell',
  multiprocessors: number,
  boostMhz: number,
  memoryGiB: number,
  bandwidthGBs: number,
  l2MiB: number,
  tdpWatts: number,
  fp32: number,
): Gpu => {
  const of = (factor: number) => Number((factor * fp32).toFixed(1))
  const peaks = {
    fp32,
    tf32: fp32,
    fp16: of(2),
    bf16: of(2),
    int8: of(8),
    ...(generation !== 'Ampere' && { fp8: of(4) }),
  }
  return gpu(
    name,
    generation,
    [name.replace('RTX-', '')],
    multiprocessors,
    boostMhz,
    memoryGiB,
    bandwidthGBs,
    l2MiB,
    tdpWatts,
    peaks,
  )
}

/** MI300X and MI325X are one silicon with other memory. */
const cdna3Peaks = {
  fp32: 163.4,
  tf32: 653.7,
  fp16: 1307.4,
  bf16: 1307.4,
  int8: 2614.9,
  fp8: 2614.9,
} as const

/** Every built-in GPU, oldest generation first. */
// biome-ignore format: a table, one GPU a row.
export const gpuCatalogue: readonly Gpu[] = [
  gpu('K80', 'Kepler', [], 13, 875, 12, 240, 1.5, 150, { fp32: 4.37 }),
  gpu('M60', 'Maxwell', [], 16, 1178, 8, 160, 2, 150, { fp32: 4.82 }),
  gpu('P4', 'Pascal', [], 20, 1063, 8, 192, 2, 75, { fp32: 5.5, int8: 22 }),
  gpu('P40', 'Pascal', [], 30, 1531, 24, 346, 3, 250, { fp32: 11.8, int8: 47 }),
  gpu('TITAN-X', 'Pascal', ['TITAN-X-Pascal'], 28, 1531, 12, 480, 3, 250, { fp32: 10.97, int8: 43.9 }),
  gpu('P100', 'Pascal', ['P100-PCIe', 'P100-PCIE-16GB'], 56, 1303, 16, 732, 4, 250, { fp32: 9.3, fp16: 18.7 }),
  gpu('P100-SXM2', 'Pascal', ['P100-SXM2-16GB'], 56, 1480, 16, 732, 4, 300, { fp32: 10.6, fp16: 21.2 }),
  gpu('V100-PCIe', 'Volta', ['V100-PCIE-16GB'], 80, 1380, 16, 900, 6, 250, { fp32: 14, fp16: 112, int8: 56 }),
  gpu('V100-PCIe-32GB', 'Volta', [], 80, 1380, 32, 900, 6, 250, { fp32: 14, fp16: 112, int8: 56 }),
  gpu('V100', 'Volta', ['V100-SXM2', 'V100-SXM2-16GB', 'V100-16GB', 'V100-DGXS-16GB'], 80, 1530, 16, 900, 6, 300, {
    fp32: 15.7,
    fp16: 125,
    int8: 62.8,
  }),
  gpu('V100-32GB', 'Volta', ['V100-SXM2-32GB', 'V100-SXM3-32GB', 'V100-DGXS-32GB'], 80, 1530, 32, 900, 6, 300, {
    fp32: 15.7,
    fp16: 125,
    int8: 62.8,
  }),
  gpu('V100S', 'Volta', ['V100S-PCIE-32GB'], 80, 1597, 32, 1134, 6, 250, { fp32: 16.4, fp16: 130, int8: 65.6 }),
  gpu('T4', 'Turing', [], 40, 1590, 16, 320, 4, 70, { fp32: 8.1, fp16: 65, int8: 130 }),
  gpu('RTX-6000', 'Turing', [], 72, 1770, 24, 672, 6, 260, { fp32: 16.3, fp16: 130.5, int8: 261 }),
  gpu('RTX-8000', 'Turing', [], 72, 1770, 48, 672, 6, 260, { fp32: 16.3, fp16: 130.5, int8: 261 }),
  gpu('RTX-4000', 'Turing', [], 36, 1545, 8, 416, 4, 160, { fp32: 7.1, fp16: 57, int8: 114 }),
  gpu('RTX-2080-Ti', 'Turing', ['2080Ti'], 68, 1545, 11, 616, 5.5, 250, { fp32: 13.4, fp16: 53.8, int8: 215.2 }),
  gpu('A100-40GB', 'Ampere', ['A100', 'A100-SXM4-40GB', 'A100-40'], 108, 1410, 40, 1555, 40, 400, {
    fp32: 19.5,
    tf32: 156,
    fp16: 312,
    bf16: 312,
    int8: 624,
  }),
  gpu('A100-80GB', 'Ampere', ['A100-SXM4-80GB', 'A100-80', 'A800-SXM4-80GB'], 108, 1410, 80, 2039, 40, 400, {
    fp32: 19.5,
    tf32: 156,
    fp16: 312,
    bf16: 312,
    int8: 624,
  }),
  gpu('A100-PCIe-40GB', 'Ampere', [], 108, 1410, 40, 1555, 40, 250, {
    fp32: 19.5,
    tf32: 156,
    fp16: 312,
    bf16: 312,
    int8: 624,
  }),
  gpu('A100-PCIe-80GB', 'Ampere', ['A100-80GB-PCIe', 'A800-80GB-PCIe'], 108, 1410, 80, 1935, 40, 300, {
    fp32: 19.5,
    tf32: 156,
    fp16: 312,
    bf16: 312,
    int8: 624,
  }),
  gpu('A30', 'Ampere', [], 56, 1440, 24, 933, 24, 165, { fp32: 10.3, tf32: 82, fp16: 165, bf16: 165, int8: 330 }),
  gpu('A40', 'Ampere', [], 84, 1740, 48, 696, 6, 300, { fp32: 37.4, tf32: 74.8, fp16: 149.7, bf16: 149.7, int8: 299.3 }),
  gpu('A10', 'Ampere', [], 72, 1695, 24, 600, 6, 150, { fp32: 31.2, tf32: 62.5, fp16: 125, bf16: 125, int8: 250 }),
  gpu('A10G', 'Ampere', [], 80, 1710, 24, 600, 6, 300, { fp32: 35, tf32: 35, fp16: 70, bf16: 70, int8: 140 }),
  gpu('A16', 'Ampere', [], 10, 1695, 16, 200, 2, 62, { fp32: 4.5, tf32: 9, fp16: 17.9, bf16: 17.9, int8: 35.9 }),
  gpu('A2', 'Ampere', [], 10, 1770, 16, 200, 2, 60, { fp32: 4.5, tf32: 9, fp16: 18, bf16: 18, int8: 36 }),
  gpu('A5000', 'Ampere', ['RTX-A5000'], 64, 1695, 24, 768, 6, 230, { fp32: 27.8, tf32: 55.6, fp16: 111.1, bf16: 111.1, int8: 222.2 }),
  gpu('A4500', 'Ampere', ['RTX-A4500'], 56, 1650, 20, 640, 6, 200, { fp32: 23.7, tf32: 47.3, fp16: 94.6, bf16: 94.6, int8: 189.2 }),
  gpu('A5500', 'Ampere', ['RTX-A5500'], 80, 1665, 24, 768, 6, 230, { fp32: 34.1, tf32: 68.2, fp16: 136.4, bf16: 136.4, int8: 272.8 }),
  gpu('A6000', 'Ampere', ['RTX-A6000'], 84, 1800, 48, 768, 6, 300, { fp32: 38.7, tf32: 77.4, fp16: 154.8, bf16: 154.8, int8: 309.7 }),
  gpu('RTX-3080', 'Ampere', ['3080'], 68, 1710, 10, 760, 5, 320, { fp32: 29.8, tf32: 29.8, fp16: 59.5, bf16: 59.5, int8: 238 }),
  gpu('RTX-3090', 'Ampere', ['3090'], 82, 1695, 24, 936, 6, 350, { fp32: 35.6, tf32: 35.6, fp16: 71, bf16: 71, int8: 284 }),
  gpu('RTX-3060', 'Ampere', ['3060'], 28, 1777, 12, 360, 3, 170, { fp32: 12.7, tf32: 12.7, fp16: 25.3, bf16: 25.3, int8: 101 }),
  geforce('RTX-3060-Ti', 'Ampere', 38, 1665, 8, 448, 4, 200, 16.2),
  geforce('RTX-3070', 'Ampere', 46, 1725, 8, 448, 4, 220, 20.3),
  geforce('RTX-3070-Ti', 'Ampere', 48, 1770, 8, 608, 4, 290, 21.7),
  geforce('RTX-3080-Ti', 'Ampere', 80, 1665, 12, 912, 6, 350, 34.1),
  geforce('RTX-3090-Ti', 'Ampere', 84, 1860, 24, 1008, 6, 450, 40),
  gpu('A4000', 'Ampere', ['RTX-A4000'], 48, 1560, 16, 448, 4, 140, { fp32: 19.2, tf32: 38.3, fp16: 76.7, bf16: 76.7, int8: 153.4 }),
  gpu('L4', 'Ada', [], 58, 2040, 24, 300, 48, 72, { fp32: 30.3, tf32: 60, fp16: 121, bf16: 121, int8: 242, fp8: 242 }),
  gpu('L40', 'Ada', [], 142, 2490, 48, 864, 96, 300, { fp32: 90.5, tf32: 90.5, fp16: 181, bf16: 181, int8: 362, fp8: 362 }),
  gpu('L40S', 'Ada', ['L40S-48GB'], 142, 2520, 48, 864, 96, 350, { fp32: 91.6, tf32: 183, fp16: 362, bf16: 362, int8: 733, fp8: 733 }),
  gpu('RTX-4090', 'Ada', ['4090'], 128, 2520, 24, 1008, 72, 450, {
    fp32: 82.6,
    tf32: 82.6,
    fp16: 165.2,
    bf16: 165.2,
    int8: 660.6,
    fp8: 330.3,
  }),
  gpu('RTX-6000-Ada', 'Ada', ['RTX-6000-Ada-Generation'], 142, 2505, 48, 960, 96, 300, {
    fp32: 91.1,
    tf32: 182,
    fp16: 364,
    bf16: 364,
    int8: 728.5,
    fp8: 728.5,
  }),
  gpu('L20', 'Ada', [], 92, 2520, 48, 864, 96, 275, { fp32: 59.8, tf32: 59.8, fp16: 119.5, bf16: 119.5, int8: 239, fp8: 239 }),
  gpu('RTX-4080', 'Ada', ['4080'], 76, 2505, 16, 717, 64, 320, { fp32: 48.7, tf32: 48.7, fp16: 97.5, bf16: 97.5, int8: 390, fp8: 195 }),
  geforce('RTX-4060', 'Ada', 24, 2460, 8, 272, 24, 115, 15.1),
  geforce('RTX-4070', 'Ada', 46, 2475, 12, 504, 36, 200, 29.1),
  geforce('RTX-4070-Super', 'Ada', 56, 2475, 12, 504, 48, 220, 35.5),
  geforce('RTX-4070-Ti', 'Ada', 60, 2610, 12, 504, 48, 285, 40.1),
  geforce('RTX-4070-Ti-Super', 'Ada', 66, 2610, 16, 672, 48, 285, 44.1),
  geforce('RTX-4080-Super', 'Ada', 80, 2550, 16, 736, 64, 320, 52.2),
  geforce('RTX-4090-D', 'Ada', 114, 2520, 24, 1008, 72, 425, 73.5),
  gpu('RTX-5000-Ada', 'Ada', [], 100, 2550, 32, 576, 64, 250, { fp32: 65.3, tf32: 130, fp16: 261, bf16: 261, int8: 522, fp8: 522 }),
  gpu('RTX-4000-Ada', 'Ada', [], 48, 2175, 20, 360, 48, 130, { fp32: 26.7, tf32: 53, fp16: 107, bf16: 107, int8: 214, fp8: 214 }),
  gpu('H100-PCIe', 'Hopper', ['H100-PCIE-80GB'], 114, 1755, 80, 2000, 50, 350, {
    fp32: 51.2,
    tf32: 378,
    fp16: 756,
    bf16: 756,
    int8: 1513,
    fp8: 1513,
  }),
  gpu('H100', 'Hopper', ['H100-SXM', 'H800', 'H100-SXM5', 'H100-80GB', 'H100-SXM5-80GB', 'H100-80GB-HBM3'], 132, 1980, 80, 3350, 50, 700, {
    fp32: 66.9,
    tf32: 494,
    fp16: 989,
    bf16: 989,
    int8: 1979,
    fp8: 1979,
  }),
  gpu('H100-NVL', 'Hopper', [], 132, 1785, 94, 3938, 50, 400, { fp32: 60, tf32: 417, fp16: 835, bf16: 835, int8: 1670, fp8: 1670 }),
  gpu('H200', 'Hopper', ['H200-SXM', 'H200-141GB', 'H200-SXM-141GB'], 132, 1980, 141, 4800, 50, 700, {
    fp32: 66.9,
    tf32: 494,
    fp16: 989,
    bf16: 989,
    int8: 1979,
    fp8: 1979,
  }),
  gpu('H200-NVL', 'Hopper', [], 132, 1785, 141, 4800, 50, 600, { fp32: 60, tf32: 417, fp16: 835, bf16: 835, int8: 1670, fp8: 1670 }),
  gpu('H20', 'Hopper', [], 78, 1980, 96, 4000, 60, 400, { fp32: 44, tf32: 74, fp16: 148, bf16: 148, int8: 296, fp8: 296 }),
  gpu('H20-3e', 'Hopper', ['H20-141GB'], 78, 1980, 141, 4800, 60, 500, { fp32: 44, tf32: 74, fp16: 148, bf16: 148, int8: 296, fp8: 296 }),
  gpu('GH200', 'Hopper', ['GH200-480GB'], 132, 1980, 96, 4000, 50, 700, {
    fp32: 66.9,
    tf32: 494,
    fp16: 989,
    bf16: 989,
    int8: 1979,
    fp8: 1979,
  }),
  gpu('GH200-144GB', 'Hopper', ['GH200-144G-HBM3e'], 132, 1980, 144, 4900, 50, 700, {
    fp32: 66.9,
    tf32: 494,
    fp16: 989,
    bf16: 989,
    int8: 1979,
    fp8: 1979,
  }),
  gpu('B200', 'Blackwell', ['B200-180GB'], 148, 1965, 180, 8000, 126, 1000, {
    fp32: 75,
    tf32: 1125,
    fp16: 2250,
    bf16: 2250,
    int8: 4500,
    fp8: 4500,
  }),
  gpu('B300', 'Blackwell', ['B300-SXM6-AC'], 148, 1920, 269, 8000, 126, 1100, {
    fp32: 77,
    tf32: 1250,
    fp16: 2500,
    bf16: 2500,
    int8: 155,
    fp8: 5000,
  }),
  gpu('GB200', 'Blackwell', [], 152, 2062, 186, 8000, 126, 1200, {
    fp32: 80,
    tf32: 1250,
    fp16: 2500,
    bf16: 2500,
    int8: 5000,
    fp8: 5000,
  }),
  gpu('GB300', 'Blackwell', [], 152, 2062, 279, 8000, 126, 1400, {
    fp32: 80,
    tf32: 1250,
    fp16: 2500,
    bf16: 2500,
    int8: 165,
    fp8: 5000,
  }),
  gpu(
    'RTX-PRO-6000',
    'Blackwell',
    ['RTX-PRO-6000-Blackwell-Server-Edition', 'RTX-PRO-6000-Blackwell-Workstation-Edition'],
    188,
    2430,
    96,
    1597,
    128,
    600,
    { fp32: 117, tf32: 234, fp16: 468, bf16: 468, int8: 937, fp8: 937 },
  ),
  gpu('RTX-5090', 'Blackwell', ['5090'], 170, 2407, 32, 1792, 96, 575, {
    fp32: 104.8,
    tf32: 104.8,
    fp16: 209.5,
    bf16: 209.5,
    int8: 838,
    fp8: 419,
  }),
  gpu('RTX-5080', 'Blackwell', ['5080'], 84, 2617, 16, 960, 64, 360, {
    fp32: 56.3,
    tf32: 56.3,
    fp16: 112.6,
    bf16: 112.6,
    int8: 450,
    fp8: 225,
  }),
  geforce('RTX-5070', 'Blackwell', 48, 2512, 12, 672, 48, 250, 30.9),
  geforce('RTX-5070-Ti', 'Blackwell', 70, 2452, 16, 896, 48, 300, 43.9),
  gpu('W7900', 'RDNA3', ['Radeon-PRO-W7900', 'Radeon-PRO-W7900-Dual-Slot'], 96, 2495, 48, 864, 96, 295, {
    fp32: 61.3,
    fp16: 122.6,
    bf16: 122.6,
    int8: 122.6,
  }),
  gpu('MI100', 'CDNA', [], 120, 1502, 32, 1229, 8, 300, { fp32: 46.1, fp16: 184.6, bf16: 92.3, int8: 184.6 }),
  gpu('MI210', 'CDNA2', [], 104, 1700, 64, 1638, 8, 300, { fp32: 45.3, fp16: 181, bf16: 181, int8: 181 }),
  // One of a board's two dies: rocm-smi and HIP count each as a GPU.
  gpu('MI250-GCD', 'CDNA2', ['MI250 (MCM) OAM AC MBA', 'MI250X / MI250'], 104, 1700, 64, 1638, 8, 280, {
    fp32: 45.3,
    fp16: 181,
    bf16: 181,
    int8: 181,
  }),
  gpu('MI250X-GCD', 'CDNA2', ['MI200 (MCM) OAM LC MBA HPE C2'], 110, 1700, 64, 1638, 8, 280, {
    fp32: 47.9,
    fp16: 191.5,
    bf16: 191.5,
    int8: 191.5,
  }),
  gpu('MI300X', 'CDNA3', ['MI300X-OAM', 'MI300X-VF'], 304, 2100, 192, 5300, 256, 750, cdna3Peaks),
  gpu('MI325X', 'CDNA3', ['MI325X-OAM'], 304, 2100, 256, 6000, 256, 1000, cdna3Peaks),
  gpu('MI355X', 'CDNA4', [], 256, 2400, 288, 8000, 256, 1400, { fp32: 157.3, fp16: 2516, bf16: 2516, int8: 5033, fp8: 5033 }),
  gpu('Max-1550', 'Xe-HPC', ['Data-Center-GPU-Max-1550'], 128, 1600, 128, 3277, 408, 600, {
    fp32: 52.4,
    tf32: 419,
    fp16: 839,
    bf16: 839,
    int8: 1678,
  }),
]

/**
 * GDDR boards with inline ECC, which reserves memory: 15360 of 16384 MiB remain on a T4, 23034 of
 * 24576 on an L4.
 */
const inlineEcc: ReadonlySet<string> = new Set([
  'K80',
  'P4',
  'P40',
  'T4',
  'A2',
  'A10',
  'A10G',
  'A16',
  'A40',
  'L4',
  'L20',
  'L40',
  'L40S',
])

/** MiB that processes can allocate, contexts included: the total of nvidia-smi, within 1 %. */
export const computeUsableMemoryMiB = (device: Gpu): number =>
  Math.round(device.memoryGiB * 1024 * (inlineEcc.has(device.name) ? 0.9375 : 0.99))

export type Vendor = 'nvidia' | 'amd' | 'intel'
/** Vendor of a GPU by its name; undefined for a custom GPU whose name contains none. */
export function findVendor(name: string): Vendor | undefined {
  const generation = gpuCatalogue.find((gpu) => gpu.name === name)?.generation
  if (/^[CR]DNA/.test(generation ?? '') || /\bamd\b|instinct|radeon/i.test(name)) return 'amd'
  if (/^Xe/.test(generation ?? '') || /\bintel\b/i.test(name)) return 'intel'
  return generation === undefined && !/nvidia/i.test(name) ? undefined : 'nvidia'
}

const normaliseName = (name: string) =>
  name
    .toLowerCase()
    .replace(/nvidia|tesla|geforce|quadro|generation|amd|instinct|intel|[^a-z0-9]/g, '')
/** Indexes GPUs by normalised name; of GPUs that share a name, the first wins. */
const indexByName = (namesOf: (gpu: Gpu) => readonly string[]) =>
  new Map(
    gpuCatalogue
      .flatMap((gpu) => namesOf(gpu).map((name) => [normaliseName(name), gpu] as const))
      .reverse(),
  )
const catalogueByName = indexByName(({ name }) => [name])
const catalogueByAlias = indexByName(({ aliases }) => aliases)

/**
 * Finds a GPU by name or alias; case, spaces, dashes and vendor names do not matter ('NVIDIA
 * A100-SXM4-40GB' works).
 * @param own custom GPUs, which take precedence over the catalogue
 * @throws DeviceModelError for an unknown name, naming close ones.
 */
export function findGpu(name: string, own: readonly Gpu[] = []): Gpu {
  const normalisedName = normaliseName(name)
  const match =
    own.find((g) => normaliseName(g.name) === normalisedName) ??
    catalogueByName.get(normalisedName) ??
    own.find((g) => g.aliases.some((alias) => normaliseName(alias) === normalisedName)) ??
    catalogueByAlias.get(normalisedName)
  if (match) return match
  const part = explainPartialGpu(name, own)
  if (part !== undefined) throw new DeviceModelError(`unknown GPU '${name}'`, part, 'no-such-gpu')
  const near = suggestNames(
    normalisedName,
    [...own, ...gpuCatalogue].map((g) => g.name),
  )
  throw new DeviceModelError(
    `unknown GPU '${name}'`,
    `${near}${near.endsWith('?') ? '' : ';'} describe your own GPU with --gpu-catalogue FILE`,
    'no-such-gpu',
  )
}

/** A hint for names that drivers and clusters use for a part of a board. */
function explainPartialGpu(name: string, own: readonly Gpu[]): string | undefined {
  const describe = 'describe it with --gpu-catalogue FILE, and price it with --prices FILE'
  if (/\b(laptop|mobile|max-?q)\b/i.test(name))
    return `a laptop or Max-Q GPU is slower than the desktop card of the same name: ${describe}`
  if (/\bgrid\b|-\d+[abcq]$/i.test(name))
    return `a virtual GPU is a part of a board, and the host sets its size: ${describe}`
  const [, board = name, profile] =
    /^(.*?)[- ]MIG[- ](\d+g\.\d+gb\S*?)(?:-SHARED)?$/i.exec(name) ?? []
  const wholeGpuName = profile === undefined ? name.replace(/-SHARED$/i, '') : board
  if (wholeGpuName === name) return undefined
  const { name: gpu } = findGpu(wholeGpuName, own)
  return profile === undefined
    ? `several pods share this ${gpu}: write ${gpu}`
    : `it is a slice of the ${gpu}: write ${gpu}, and tune migProfile: [${profile}]`
}

/**
 * Fallbacks of inference runtimes for precisions that a GPU lacks: int8 and fp16 become the next
 * wider type, and tf32 becomes fp32.
 */
const fallback: Readonly<Partial<Record<Precision, Precision>>> = {
  int8: 'fp16',
  fp16: 'fp32',
  tf32: 'fp32',
}

/**
 * Resolves the precision that a runtime uses on a GPU, and its dense peak rate.
 * @throws DeviceModelError for bf16 and fp8 on hardware without them: runtimes refuse those.
 */
export function resolvePrecision(
  device: Gpu,
  requested: Precision,
): { precision: Precision; tflops: number } {
  for (
    let precision: Precision | undefined = requested;
    precision !== undefined;
    precision = fallback[precision]
  ) {
    const tflops = device.peakTflops[precision]
    if (tflops !== undefined) return { precision, tflops }
  }
  throw new DeviceModelError(
    `${device.name} has no ${requested}`,
    `it supports ${Object.keys(device.peakTflops).join(', ')}`,
  )
}
