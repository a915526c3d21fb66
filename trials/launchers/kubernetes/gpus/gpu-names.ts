/** Names of the GPUs of the catalogue on each platform. */

/**
 * Values of each vendor's product label by catalogue name: nvidia.com/gpu.product (the driver's
 * board name with dashes for spaces), amd.com/gpu.product-name, gpu.intel.com/product. Board
 * variants of a model have different names.
 */
const products: Readonly<Record<string, readonly string[]>> = {
  T4: ['Tesla-T4', 'NVIDIA-T4'],
  P4: ['Tesla-P4'],
  P40: ['Tesla-P40'],
  K80: ['Tesla-K80'],
  M60: ['Tesla-M60'],
  P100: ['Tesla-P100-PCIE-16GB'],
  'P100-SXM2': ['Tesla-P100-SXM2-16GB'],
  'V100-PCIe': ['Tesla-V100-PCIE-16GB'],
  V100: ['Tesla-V100-SXM2-16GB'],
  'V100-32GB': ['Tesla-V100-SXM2-32GB', 'Tesla-V100-SXM3-32GB', 'Tesla-V100-DGXS-32GB'],
  'V100-PCIe-32GB': ['Tesla-V100-PCIE-32GB'],
  V100S: ['Tesla-V100S-PCIE-32GB'],
  'A100-40GB': [
    'NVIDIA-A100-SXM4-40GB',
    'NVIDIA-A100-PCIE-40GB',
    'A100-SXM4-40GB',
    'A100-PCIE-40GB',
  ],
  'A100-80GB': ['NVIDIA-A100-SXM4-80GB', 'A100-SXM4-80GB'],
  'A100-PCIe-40GB': ['NVIDIA-A100-PCIE-40GB', 'A100-PCIE-40GB'],
  'A100-PCIe-80GB': ['NVIDIA-A100-80GB-PCIe', 'NVIDIA-A800-80GB-PCIe'],
  A4500: ['NVIDIA-RTX-A4500', 'RTX-A4500'],
  A5500: ['NVIDIA-RTX-A5500', 'RTX-A5500'],
  A5000: ['NVIDIA-RTX-A5000', 'RTX-A5000'],
  A6000: ['NVIDIA-RTX-A6000', 'RTX-A6000'],
  'RTX-4000': ['Quadro-RTX-4000'],
  'RTX-6000': ['Quadro-RTX-6000'],
  'RTX-8000': ['Quadro-RTX-8000'],
  'RTX-2080-Ti': ['NVIDIA-GeForce-RTX-2080-Ti', 'GeForce-RTX-2080-Ti'],
  'RTX-3080': ['NVIDIA-GeForce-RTX-3080', 'GeForce-RTX-3080'],
  'RTX-3090': ['NVIDIA-GeForce-RTX-3090', 'GeForce-RTX-3090'],
  'RTX-4090': ['NVIDIA-GeForce-RTX-4090'],
  'RTX-6000-Ada': ['NVIDIA-RTX-6000-Ada-Generation'],
  L4: ['NVIDIA-L4'],
  L40: ['NVIDIA-L40'],
  L40S: ['NVIDIA-L40S'],
  A10: ['NVIDIA-A10'],
  A10G: ['NVIDIA-A10G'],
  A30: ['NVIDIA-A30'],
  A40: ['NVIDIA-A40'],
  A2: ['NVIDIA-A2'],
  H100: ['NVIDIA-H100-80GB-HBM3', 'NVIDIA-H100-SXM5-80GB'],
  'H100-PCIe': ['NVIDIA-H100-PCIe'],
  H200: ['NVIDIA-H200'],
  'H200-NVL': ['NVIDIA-H200-NVL'],
  'H100-NVL': ['NVIDIA-H100-NVL'],
  GH200: ['NVIDIA-GH200-480GB'],
  'GH200-144GB': ['NVIDIA-GH200-144G-HBM3e'],
  B200: ['NVIDIA-B200'],
  B300: ['NVIDIA-B300-SXM6-AC'],
  GB200: ['NVIDIA-GB200'],
  GB300: ['NVIDIA-GB300'],
  H20: ['NVIDIA-H20'],
  'H20-3e': ['NVIDIA-H20-3e'],
  L20: ['NVIDIA-L20'],
  A4000: ['NVIDIA-RTX-A4000', 'RTX-A4000'],
  'RTX-3060': ['NVIDIA-GeForce-RTX-3060'],
  'RTX-4080': ['NVIDIA-GeForce-RTX-4080'],
  'RTX-5080': ['NVIDIA-GeForce-RTX-5080'],
  'RTX-5090': ['NVIDIA-GeForce-RTX-5090'],
  'RTX-3060-Ti': ['NVIDIA-GeForce-RTX-3060-Ti'],
  'RTX-3070': ['NVIDIA-GeForce-RTX-3070'],
  'RTX-3070-Ti': ['NVIDIA-GeForce-RTX-3070-Ti'],
  'RTX-3080-Ti': ['NVIDIA-GeForce-RTX-3080-Ti'],
  'RTX-3090-Ti': ['NVIDIA-GeForce-RTX-3090-Ti'],
  'RTX-4060': ['NVIDIA-GeForce-RTX-4060'],
  'RTX-4070': ['NVIDIA-GeForce-RTX-4070'],
  'RTX-4070-Super': ['NVIDIA-GeForce-RTX-4070-SUPER'],
  'RTX-4070-Ti': ['NVIDIA-GeForce-RTX-4070-Ti'],
  'RTX-4070-Ti-Super': ['NVIDIA-GeForce-RTX-4070-Ti-SUPER'],
  'RTX-4080-Super': ['NVIDIA-GeForce-RTX-4080-SUPER'],
  'RTX-4090-D': ['NVIDIA-GeForce-RTX-4090-D'],
  'RTX-5070': ['NVIDIA-GeForce-RTX-5070'],
  'RTX-5070-Ti': ['NVIDIA-GeForce-RTX-5070-Ti'],
  'RTX-4000-Ada': ['NVIDIA-RTX-4000-Ada-Generation'],
  'RTX-5000-Ada': ['NVIDIA-RTX-5000-Ada-Generation'],
  'RTX-PRO-6000': [
    'NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition',
    'NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition',
  ],
  W7900: ['AMD_Radeon_PRO_W7900', 'AMD_Radeon_PRO_W7900_Dual_Slot'],
  MI100: ['AMD_Instinct_MI100'],
  MI210: ['AMD_Instinct_MI210'],
  'MI250-GCD': ['AMD_INSTINCT_MI250_MCM_OAM_AC_MBA'],
  'MI250X-GCD': ['AMD_INSTINCT_MI200_MCM_OAM_LC_MBA_HPE_C2'],
  MI300X: ['AMD_Instinct_MI300X_OAM'],
  MI325X: ['AMD_Instinct_MI325X_OAM'],
  MI355X: ['AMD_Instinct_MI355X_OAM'],
  'Max-1550': ['Max_1550'],
  A16: ['NVIDIA-A16'],
  'TITAN-X': ['NVIDIA-TITAN-X-Pascal', 'TITAN-X-Pascal'],
}

/** Values of the label cloud.google.com/gke-accelerator. */
export const gkeNames: Readonly<Record<string, string>> = {
  T4: 'nvidia-tesla-t4',
  V100: 'nvidia-tesla-v100',
  P4: 'nvidia-tesla-p4',
  P100: 'nvidia-tesla-p100',
  'A100-40GB': 'nvidia-tesla-a100',
  'A100-80GB': 'nvidia-a100-80gb',
  L4: 'nvidia-l4',
  H100: 'nvidia-h100-80gb',
  H200: 'nvidia-h200-141gb',
}

/** Values of the label karpenter.k8s.aws/instance-gpu-name. */
export const karpenterNames: Readonly<Record<string, string>> = {
  T4: 't4',
  V100: 'v100',
  A10G: 'a10g',
  L4: 'l4',
  L40S: 'l40s',
  'A100-40GB': 'a100',
  'A100-80GB': 'a100',
  H100: 'h100',
  H200: 'h200',
}

/**
 * Virtual machine sizes of AKS by GPU, because its label kubernetes.azure.com/accelerator=nvidia
 * names no model. Fractions of an A10 are left out. Azure's documentation, "GPU accelerated virtual
 * machine sizes".
 */
export const aksSizes: Readonly<Record<string, readonly string[]>> = {
  T4: [
    'Standard_NC4as_T4_v3',
    'Standard_NC8as_T4_v3',
    'Standard_NC16as_T4_v3',
    'Standard_NC64as_T4_v3',
  ],
  P100: ['Standard_NC6s_v2', 'Standard_NC12s_v2', 'Standard_NC24s_v2', 'Standard_NC24rs_v2'],
  'V100-PCIe': ['Standard_NC6s_v3', 'Standard_NC12s_v3', 'Standard_NC24s_v3', 'Standard_NC24rs_v3'],
  'V100-32GB': ['Standard_ND40rs_v2'],
  A10: ['Standard_NV36ads_A10_v5', 'Standard_NV36adms_A10_v5', 'Standard_NV72ads_A10_v5'],
  'A100-40GB': ['Standard_ND96asr_v4'],
  'A100-80GB': ['Standard_ND96amsr_A100_v4'],
  'A100-PCIe-80GB': [
    'Standard_NC24ads_A100_v4',
    'Standard_NC48ads_A100_v4',
    'Standard_NC96ads_A100_v4',
  ],
  H100: ['Standard_ND96isr_H100_v5'],
  H200: ['Standard_ND96isr_H200_v5'],
}

/**
 * Memory of a board as the driver reports it (nvidia-smi, memory.total), MiB, where that is less
 * than the nominal size: error correction and firmware reserve the rest. Used where no node reports
 * it.
 */
const reportedMiB: Readonly<Record<string, number>> = {
  L4: 23_034,
  A10: 23_028,
  A10G: 23_028,
  L40: 46_068,
  L40S: 46_068,
  A40: 46_068,
  A6000: 49_140,
  'RTX-6000-Ada': 49_140,
  'RTX-4090': 24_564,
  H100: 81_559,
  'H100-PCIe': 81_559,
  H200: 143_771,
}
/** Infinity: the nominal size is the limit. */
export const getReportedMemoryMiB = (gpu: string): number =>
  reportedMiB[gpu] ?? Number.POSITIVE_INFINITY

/** Karpenter uses one name for two sizes of A100, and a label with the size, MiB. */
export const karpenterMemory: Readonly<Record<string, string>> = {
  'A100-40GB': '40960',
  'A100-80GB': '81920',
}

/** Product label values of a GPU; a custom name is its own label. */
export const listProducts = (gpu: string): readonly string[] =>
  // Labels have dashes where names have spaces.
  products[gpu] ?? [(gpu.includes('NVIDIA') ? gpu : `NVIDIA-${gpu}`).replaceAll(/\s+/g, '-')]

/** Product name of a Karpenter node, with the memory where the name is ambiguous. */
export const formatKarpenterProduct = (name: string, memoryMiB: string | undefined): string =>
  name === 'a100' && memoryMiB !== undefined ? `${name}-${memoryMiB}` : name

const getBoardLabel = (label: string): string =>
  label.replace(/-SHARED$/, '').replace(/-MIG-.*$/, '')

/**
 * Catalogue name for a product label of NVIDIA or a cloud, or for an AKS machine size; suffixes of
 * shared and sliced GPUs are ignored. Undefined if unknown.
 */
export function findGpuByProduct(label: string): string | undefined {
  const board = getBoardLabel(label)
  const sized = Object.keys(karpenterMemory).find(
    (gpu) => board === formatKarpenterProduct('a100', karpenterMemory[gpu]),
  )
  if (sized) return sized
  const product = Object.entries(products).find(([, names]) => names.includes(board))
  if (product) return product[0]
  const size = Object.entries(aksSizes).find(([, sizes]) =>
    sizes.some((known) => known.toLowerCase() === board.toLowerCase()),
  )
  if (size) return size[0]
  for (const names of [gkeNames, karpenterNames]) {
    const [name] = Object.entries(names).find(([, value]) => value === board) ?? []
    if (name) return name
  }
  return undefined
}

/**
 * Whether a product label is one of a GPU's: a board may be a variant of several catalogue entries.
 */
export const matchesProduct = (label: string, gpu: string): boolean =>
  findGpuByProduct(label) === gpu || listProducts(gpu).includes(getBoardLabel(label))

/**
 * HAMi annotations that select a GPU. HAMi matches substrings of the driver's board name: L4 would
 * also match L40, so longer names are excluded.
 */
export function createHamiTypes(gpu: string): Record<string, string> {
  const boardName = getBoardName(gpu)
  const longerNames = Object.keys(products)
    .map(getBoardName)
    .filter((other) => other !== boardName && other.includes(boardName))
  // A board with two memory sizes has the size in its type.
  const [, size] = /-(\d+GB)$/.exec(gpu) ?? []
  const sizes = Object.keys(products).flatMap((other) =>
    getBoardName(other) === boardName ? (/-(\d+GB)$/.exec(other)?.[1] ?? []) : [],
  )
  const excludedNames = [
    ...new Set([
      ...longerNames,
      ...(size === undefined ? [] : sizes.filter((other) => other !== size)),
    ]),
  ]
  return {
    'nvidia.com/use-gputype': boardName,
    ...(excludedNames.length > 0 ? { 'nvidia.com/nouse-gputype': excludedNames.join(',') } : {}),
  }
}

/** Gets the common part of a model's board names: 'A100', 'GeForce RTX 4070 Ti'. */
const getBoardName = (gpu: string): string =>
  /^(RTX|TITAN)-/.test(gpu)
    ? listProducts(gpu)[0]!
        .replace(/^NVIDIA-/, '')
        .replace(/-(Generation|Blackwell.*)$/, '')
        .replaceAll('-', ' ')
    : gpu.split('-')[0]!
