import { expect, test } from 'vitest'
import { computeUsableMemoryMiB, findGpu, gpuCatalogue, resolvePrecision } from './catalogue.ts'

test.each([
  ['T4', 'T4'],
  ['Tesla T4', 'T4'],
  ['a100', 'A100-40GB'],
  ['NVIDIA A100-SXM4-80GB', 'A100-80GB'],
  ['NVIDIA GeForce RTX 4090', 'RTX-4090'],
  ['NVIDIA H100 80GB HBM3', 'H100'],
  ['Tesla V100-SXM2-16GB', 'V100'],
  ['NVIDIA H200', 'H200'],
  ['NVIDIA H200 NVL', 'H200-NVL'],
  ['NVIDIA H20-3e', 'H20-3e'],
  ['NVIDIA GH200 480GB', 'GH200'],
  ['NVIDIA GH200 144G HBM3e', 'GH200-144GB'],
  ['NVIDIA A800 80GB PCIe', 'A100-PCIe-80GB'],
  ['Tesla V100-PCIE-32GB', 'V100-PCIe-32GB'],
  ['Tesla P40', 'P40'],
  ['Quadro RTX 6000', 'RTX-6000'],
  ['Quadro RTX 4000', 'RTX-4000'],
  ['NVIDIA GB300', 'GB300'],
  ['NVIDIA RTX 6000 Ada Generation', 'RTX-6000-Ada'],
  ['NVIDIA RTX PRO 6000 Blackwell Server Edition', 'RTX-PRO-6000'],
  ['NVIDIA GeForce RTX 4070 Ti SUPER', 'RTX-4070-Ti-Super'],
  ['AMD Instinct MI300X OAM', 'MI300X'],
  ['AMD Instinct MI300X VF', 'MI300X'],
  ['AMD Instinct MI355X', 'MI355X'],
  ['AMD Instinct MI100', 'MI100'],
  ['Radeon Pro W7900', 'W7900'],
  ['AMD Radeon PRO W7900 Dual Slot', 'W7900'],
  ['AMD INSTINCT MI250 (MCM) OAM AC MBA', 'MI250-GCD'],
  ['AMD Instinct MI250X / MI250', 'MI250-GCD'],
  ['AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2', 'MI250X-GCD'],
])('%s is %s', (name, canonical) => {
  expect(findGpu(name).name).toBe(canonical)
})

test('an unknown name tells which are close', () => {
  expect(() => findGpu('A110')).toThrow(/unknown GPU 'A110'; did you mean .*A10/)
  expect(() => findGpu('H10')).toThrow(/did you mean H100/)
  expect(() => findGpu('Voodoo')).toThrow(/known: K80, M60/)
})

test('a part of a board, or another board of nearly its name, is not that board', () => {
  for (const name of [
    'NVIDIA GeForce RTX 4090 Laptop GPU',
    'NVIDIA A10-24Q',
    'GRID T4-8Q',
    'NVIDIA A100-SXM4-80GB MIG 1g.10gb',
    'NVIDIA L40G',
  ])
    expect(() => findGpu(name), name).toThrow(/unknown GPU/)
})

test.each([
  ['NVIDIA GeForce RTX 4090 Laptop GPU', /a laptop or Max-Q GPU .* --gpu-catalogue FILE/],
  [
    'NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition',
    /slower than the desktop card of the same name/,
  ],
  ['GRID T4-16Q', /a virtual GPU is a part of a board/],
  ['NVIDIA A10-24Q', /a virtual GPU is a part of a board/],
  ['NVIDIA-A100-SXM4-80GB-MIG-1g.10gb', /slice of the A100-80GB: .* migProfile: \[1g\.10gb\]$/],
  ['NVIDIA A100-SXM4-80GB MIG 3g.40gb', /slice of the A100-80GB: .* migProfile: \[3g\.40gb\]$/],
  ['NVIDIA-L4-SHARED', /^several pods share this L4: write L4$/],
  ['NVIDIA H100 80GB HBM3e', /^did you mean H100/],
])('a name that stands for less than a board, or for another: %s', (name, hint) => {
  let told = ''
  try {
    findGpu(name)
  } catch (error) {
    told = (error as { hint: string }).hint
  }
  expect(told).toMatch(hint)
})

test('own GPUs come before the catalogue', () => {
  const mine = { ...findGpu('T4'), name: 'T4', bandwidthGBs: 111 }
  expect(findGpu('t4', [mine]).bandwidthGBs).toBe(111)
})

test('names and aliases are unambiguous', () => {
  const plain = gpuCatalogue.flatMap((g) => [g.name, ...g.aliases]).map((n) => n.toLowerCase())
  expect(new Set(plain).size).toBe(plain.length)
})

test('every GPU has an fp32 peak, and wider types are never faster', () => {
  for (const { name, peakTflops } of gpuCatalogue) {
    expect(peakTflops.fp32, name).toBeGreaterThan(0)
    if (peakTflops.fp16 !== undefined)
      expect(peakTflops.fp16, name).toBeGreaterThanOrEqual(peakTflops.fp32!)
  }
})

test('precisions fall back as runtimes do, or are refused', () => {
  expect(resolvePrecision(findGpu('P100'), 'int8')).toEqual({ precision: 'fp16', tflops: 18.7 })
  expect(resolvePrecision(findGpu('M60'), 'fp16')).toEqual({ precision: 'fp32', tflops: 4.82 })
  expect(() => resolvePrecision(findGpu('T4'), 'bf16')).toThrow(
    'T4 has no bf16; it supports fp32, fp16, int8',
  )
})

test('usable memory is what nvidia-smi reports, within 1 %', () => {
  for (const [name, mib] of [
    ['T4', 15360],
    ['L4', 23034],
    ['A100-80GB', 81920],
    ['H100', 81559],
    ['RTX-3090', 24576],
    ['V100', 16384],
    ['K80', 11441],
    ['P40', 22919],
    ['L20', 46068],
    ['H200-NVL', 143771],
    ['GB300', 284208],
  ] as const)
    expect(Math.abs(computeUsableMemoryMiB(findGpu(name)) / mib - 1), name).toBeLessThan(0.012)
})
