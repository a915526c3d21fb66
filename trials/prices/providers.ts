/**
 * Price books of one provider each: what a GPU costs there beside cores and memory at that provider's own rates. An instance's price less its
 * vCPUs and memory leaves the GPU's own.
 */
import type { Price, PriceBook } from './book.ts'

/** The smallest share of a sold instance that holds one GPU: price, vCPUs and GiB are those of the instance over its GPUs. */
type Offer = readonly [gpu: string, instance: string, gpus: number, vcpus: number, memoryGiB: number, perHour: number]

interface Rates {
  readonly vcpu: Price
  readonly memoryGiB: Price
}

const gpusOf = (offers: readonly Offer[], { vcpu, memoryGiB }: Rates, where: string): Record<string, Price> =>
  Object.fromEntries(
    offers.map(([gpu, instance, gpus, vcpus, gib, perHour]) => [
      gpu,
      {
        perHour: Number(((perHour - vcpus * vcpu.perHour - gib * memoryGiB.perHour) / gpus).toFixed(4)),
        source: `${instance}, ${where}, less its vCPUs and memory`,
      },
    ]),
  )

const book = (
  name: string,
  where: string,
  rates: readonly [vcpu: number, memoryGiB: number, of: string],
  offers: readonly Offer[],
): PriceBook => {
  const [vcpu, memoryGiB, of] = rates
  const priced: Rates = { vcpu: { perHour: vcpu, source: of }, memoryGiB: { perHour: memoryGiB, source: of } }
  return { name, currency: 'USD', ...priced, gpus: gpusOf(offers, priced, where) }
}

const awsDate = 'us-east-1, 2026-01-21'

const aws = book(
  `AWS on-demand, ${awsDate}`,
  `on-demand, ${awsDate}`,
  [0.033, 0.00375, 'AWS m6i and r6i, on-demand, us-east-1'],
  [
    ['K80', 'p2.xlarge', 1, 4, 61, 0.9],
    ['M60', 'g3s.xlarge', 1, 4, 30.5, 0.75],
    ['V100', 'p3.2xlarge', 1, 8, 61, 3.06],
    ['V100-32GB', 'p3dn.24xlarge', 8, 96, 768, 31.212],
    ['T4', 'g4dn.xlarge', 1, 4, 16, 0.526],
    ['A10G', 'g5.xlarge', 1, 4, 16, 1.006],
    ['A100-40GB', 'p4d.24xlarge', 8, 96, 1152, 21.957642],
    ['A100-80GB', 'p4de.24xlarge', 8, 96, 1152, 27.44705],
    ['L4', 'g6.xlarge', 1, 4, 16, 0.8048],
    ['L40S', 'g6e.xlarge', 1, 4, 32, 1.861],
    ['H100', 'p5.4xlarge', 1, 16, 256, 6.88],
    ['H200', 'p5en.48xlarge', 8, 192, 2048, 63.296],
    ['B200', 'p6-b200.48xlarge', 8, 192, 2048, 113.9328],
    ['RTX-PRO-6000', 'g7e.2xlarge', 1, 8, 64, 3.36312],
  ],
)

/** Cores and memory at the discount of the instances below, 37 %. */
const awsReserved = book(
  `AWS reserved for one year, no upfront, ${awsDate}`,
  `reserved for one year, no upfront, ${awsDate}`,
  [0.0208, 0.00236, 'AWS m6i and r6i at the discount of g4dn reserved for one year'],
  [
    ['V100-32GB', 'p3dn.24xlarge', 8, 96, 768, 19.215],
    ['T4', 'g4dn.xlarge', 1, 4, 16, 0.331],
    ['A10G', 'g5.xlarge', 1, 4, 16, 0.63378],
    ['A100-40GB', 'p4d.24xlarge', 8, 96, 1152, 13.921094],
    ['A100-80GB', 'p4de.24xlarge', 8, 96, 1152, 17.401365],
    ['L4', 'g6.xlarge', 1, 4, 16, 0.52392],
    ['L40S', 'g6e.xlarge', 1, 4, 32, 1.17243],
  ],
)

const gcpDate = 'us-central1, list of 2025-2026'
const gcp = book(
  `GCP on-demand, ${gcpDate}`,
  `on-demand, ${gcpDate}`,
  [0.031611, 0.004237, 'GCP N1 on-demand, us-central1'],
  [
    ['K80', 'accelerator attached to N1', 1, 0, 0, 0.45],
    ['P4', 'accelerator attached to N1', 1, 0, 0, 0.6],
    ['P100', 'accelerator attached to N1', 1, 0, 0, 1.46],
    ['V100', 'accelerator attached to N1', 1, 0, 0, 2.48],
    ['T4', 'accelerator attached to N1', 1, 0, 0, 0.35],
    ['A100-40GB', 'a2-highgpu-1g', 1, 12, 85, 3.673385],
    ['A100-80GB', 'a2-ultragpu-1g', 1, 12, 170, 5.0688],
    ['L4', 'g2-standard-4', 1, 4, 16, 0.76],
  ],
)

const azureDate = 'East US, list of 2025'
const azure = book(
  `Azure pay-as-you-go, ${azureDate}`,
  `pay-as-you-go, ${azureDate}`,
  [0.033, 0.00375, 'Azure Dsv5 and Esv5, pay-as-you-go, East US'],
  [
    ['T4', 'NC4as_T4_v3', 1, 4, 28, 0.526],
    ['V100-PCIe', 'NC6s_v3', 1, 6, 112, 3.06],
    ['A10', 'NV36ads_A10_v5', 1, 36, 440, 3.2],
    ['A100-40GB', 'ND96asr_v4', 8, 96, 900, 27.197],
    ['A100-80GB', 'ND96amsr_A100_v4', 8, 96, 1900, 32.77],
    ['A100-PCIe-80GB', 'NC24ads_A100_v4', 1, 24, 220, 3.673],
    ['H100', 'ND96isr_H100_v5', 8, 96, 1900, 98.32],
    ['H100-NVL', 'NC40ads_H100_v5', 1, 40, 320, 6.98],
    ['H200', 'ND96isr_H200_v5', 8, 96, 1850, 84.8],
    ['MI300X', 'ND96isr_MI300X_v5', 8, 96, 1850, 48],
  ],
)

const providerBooks: Readonly<Record<string, PriceBook>> = { aws, 'aws-reserved': awsReserved, gcp, azure }

/** What stands in place of a path. */
export const providerNames: readonly string[] = Object.keys(providerBooks)

/** Undefined: no provider has the name. */
export const providerBook = (name: string): PriceBook | undefined => (Object.hasOwn(providerBooks, name) ? providerBooks[name] : undefined)

/** What to do about a name such as `aws-spot` or `gcp-committed` that has no list; undefined for what is no provider's. */
export function unknownRatesHint(name: string): string | undefined {
  const [provider, kind] = /^(aws|gcp|azure)-(spot|preemptible|committed|reserved|savings)$/.exec(name)?.slice(1) ?? []
  if (provider === undefined || providerBook(name) !== undefined) return undefined
  const why = kind === 'spot' || kind === 'preemptible' ? 'they move by the hour' : 'no dated list of them is known here'
  return `there are no ${kind} prices of ${provider}: ${why}; give yours with --prices FILE:  extends: ${provider}, source: where and when, gpus: { T4: 0.16 }, vcpu: 0.01, memoryGiB: 0.001`
}
