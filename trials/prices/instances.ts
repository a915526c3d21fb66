/**
 * GPU instances of clouds, with list prices in USD. Instances that are dominated by another one of
 * the same cloud are left out. So are spot prices, which change hourly.
 */
export interface Instance {
  /** A cloud of the list below, or whatever a user's file calls it. */
  readonly cloud: string
  readonly name: string
  /** Catalogue name. */
  readonly gpu: string
  readonly gpus: number
  readonly vcpus: number
  readonly memoryGiB: number
  readonly onDemandPerHour: number
  /** Committed for one year, nothing paid upfront; absent: not known. */
  readonly reservedPerHour?: number
  /** Region, date and list of the prices. */
  readonly source: string
}

/** Region and date of each cloud's list. */
export const listedAt = {
  aws: 'us-east-1, 2026-01-21',
  gcp: 'us-central1, list of 2025-2026',
  azure: 'East US, list of 2025, from memory',
  alibaba: 'cn-hangzhou, September 2025, at 7.1 CNY to the USD',
} as const

type Row = readonly [
  name: string,
  gpu: string,
  gpus: number,
  vcpus: number,
  memoryGiB: number,
  onDemandPerHour: number,
  reservedPerHour?: number,
]

const aws: readonly Row[] = [
  ['g3.16xlarge', 'M60', 4, 64, 488, 4.56],
  ['g3.4xlarge', 'M60', 1, 16, 122, 1.14],
  ['g3.8xlarge', 'M60', 2, 32, 244, 2.28],
  ['g3s.xlarge', 'M60', 1, 4, 30.5, 0.75],
  ['g4dn.12xlarge', 'T4', 4, 48, 192, 3.912, 2.465],
  ['g4dn.16xlarge', 'T4', 1, 64, 256, 4.352, 2.742],
  ['g4dn.2xlarge', 'T4', 1, 8, 32, 0.752, 0.474],
  ['g4dn.4xlarge', 'T4', 1, 16, 64, 1.204, 0.759],
  ['g4dn.8xlarge', 'T4', 1, 32, 128, 2.176, 1.371],
  ['g4dn.metal', 'T4', 8, 96, 384, 7.824, 4.929],
  ['g4dn.xlarge', 'T4', 1, 4, 16, 0.526, 0.331],
  ['g5.12xlarge', 'A10G', 4, 48, 192, 5.672, 3.5734],
  ['g5.16xlarge', 'A10G', 1, 64, 256, 4.096, 2.5805],
  ['g5.24xlarge', 'A10G', 4, 96, 384, 8.144, 5.1307],
  ['g5.2xlarge', 'A10G', 1, 8, 32, 1.212, 0.7636],
  ['g5.48xlarge', 'A10G', 8, 192, 768, 16.288, 10.2614],
  ['g5.4xlarge', 'A10G', 1, 16, 64, 1.624, 1.0231],
  ['g5.8xlarge', 'A10G', 1, 32, 128, 2.448, 1.5422],
  ['g5.xlarge', 'A10G', 1, 4, 16, 1.006, 0.63378],
  ['g6.12xlarge', 'L4', 4, 48, 192, 4.6016, 2.9956],
  ['g6.16xlarge', 'L4', 1, 64, 256, 3.3968, 2.2113],
  ['g6.24xlarge', 'L4', 4, 96, 384, 6.6752, 4.3456],
  ['g6.2xlarge', 'L4', 1, 8, 32, 0.9776, 0.6364],
  ['g6.48xlarge', 'L4', 8, 192, 768, 13.3504, 8.6911],
  ['g6.4xlarge', 'L4', 1, 16, 64, 1.3232, 0.8614],
  ['g6.8xlarge', 'L4', 1, 32, 128, 2.0144, 1.3114],
  ['g6.xlarge', 'L4', 1, 4, 16, 0.8048, 0.52392],
  ['g6e.12xlarge', 'L40S', 4, 48, 384, 10.4926, 6.6104],
  ['g6e.16xlarge', 'L40S', 1, 64, 512, 7.5772, 4.7736],
  ['g6e.24xlarge', 'L40S', 4, 96, 768, 15.0656, 9.4913],
  ['g6e.2xlarge', 'L40S', 1, 8, 64, 2.2421, 1.4125],
  ['g6e.48xlarge', 'L40S', 8, 192, 1536, 30.1312, 18.9826],
  ['g6e.4xlarge', 'L40S', 1, 16, 128, 3.0042, 1.8927],
  ['g6e.8xlarge', 'L40S', 1, 32, 256, 4.5286, 2.853],
  ['g6e.xlarge', 'L40S', 1, 4, 32, 1.861, 1.17243],
  ['gr6.4xlarge', 'L4', 1, 16, 128, 1.5392, 1.002],
  ['gr6.8xlarge', 'L4', 1, 32, 256, 2.4464, 1.5926],
  ['p2.16xlarge', 'K80', 16, 64, 732, 14.4],
  ['p2.8xlarge', 'K80', 8, 32, 488, 7.2],
  ['p2.xlarge', 'K80', 1, 4, 61, 0.9],
  ['p3.16xlarge', 'V100', 8, 64, 488, 24.48],
  ['p3.2xlarge', 'V100', 1, 8, 61, 3.06],
  ['p3.8xlarge', 'V100', 4, 32, 244, 12.24],
  ['p3dn.24xlarge', 'V100-32GB', 8, 96, 768, 31.212, 19.215],
  ['p4d.24xlarge', 'A100-40GB', 8, 96, 1152, 21.957642, 13.921094],
  ['p4de.24xlarge', 'A100-80GB', 8, 96, 1152, 27.44705, 17.401365],
  ['p5.48xlarge', 'H100', 8, 192, 2048, 55.04],
  ['p5.4xlarge', 'H100', 1, 16, 256, 6.88],
  ['p5en.48xlarge', 'H200', 8, 192, 2048, 63.296],
  ['p6-b200.48xlarge', 'B200', 8, 192, 2048, 113.9328],
  ['g7e.2xlarge', 'RTX-PRO-6000', 1, 8, 64, 3.36312],
]
const gcp: readonly Row[] = [
  ['a2-highgpu-1g', 'A100-40GB', 1, 12, 85, 3.673385],
  ['a2-highgpu-2g', 'A100-40GB', 2, 24, 170, 7.3468],
  ['a2-highgpu-4g', 'A100-40GB', 4, 48, 340, 14.6935],
  ['a2-highgpu-8g', 'A100-40GB', 8, 96, 680, 29.3871],
  ['a2-megagpu-16g', 'A100-40GB', 16, 96, 1360, 55.7395],
  ['a2-ultragpu-1g', 'A100-80GB', 1, 12, 170, 5.0688],
  ['a2-ultragpu-2g', 'A100-80GB', 2, 24, 340, 10.1376],
  ['a2-ultragpu-4g', 'A100-80GB', 4, 48, 680, 20.2752],
  ['a2-ultragpu-8g', 'A100-80GB', 8, 96, 1360, 40.5504],
  ['g2-standard-4', 'L4', 1, 4, 16, 0.76],
  ['g2-standard-8', 'L4', 1, 8, 32, 0.91],
  ['g2-standard-12', 'L4', 1, 12, 48, 1.06],
  ['g2-standard-16', 'L4', 1, 16, 64, 1.2],
  ['g2-standard-32', 'L4', 1, 32, 128, 1.79],
  ['g2-standard-24', 'L4', 2, 24, 96, 2.11],
  ['g2-standard-48', 'L4', 4, 48, 192, 4.23],
  ['g2-standard-96', 'L4', 8, 96, 384, 8.46],
]
const azure: readonly Row[] = [
  ['NC4as_T4_v3', 'T4', 1, 4, 28, 0.526],
  ['NC6s_v3', 'V100-PCIe', 1, 6, 112, 3.06],
  ['NV36ads_A10_v5', 'A10', 1, 36, 440, 3.2],
  ['ND96asr_v4', 'A100-40GB', 8, 96, 900, 27.197],
  ['ND96amsr_A100_v4', 'A100-80GB', 8, 96, 1900, 32.77],
  ['NC24ads_A100_v4', 'A100-PCIe-80GB', 1, 24, 220, 3.673],
  ['ND96isr_H100_v5', 'H100', 8, 96, 1900, 98.32],
  ['NC40ads_H100_v5', 'H100-NVL', 1, 40, 320, 6.98],
  ['ND96isr_H200_v5', 'H200', 8, 96, 1850, 84.8],
  ['ND96isr_MI300X_v5', 'MI300X', 8, 96, 1850, 48],
]
const alibaba: readonly Row[] = [
  ['ecs.gn5i-c16g1.4xlarge', 'P4', 1, 16, 64, 2.2014],
  ['ecs.gn5i-c16g1.8xlarge', 'P4', 2, 32, 128, 4.4014],
  ['ecs.gn5i-c28g1.14xlarge', 'P4', 2, 56, 224, 6.0648],
  ['ecs.gn5i-c2g1.large', 'P4', 1, 2, 8, 1.2225],
  ['ecs.gn5i-c4g1.xlarge', 'P4', 1, 4, 16, 1.3648],
  ['ecs.gn5i-c8g1.2xlarge', 'P4', 1, 8, 32, 1.6437],
  ['ecs.gn6e-c12g1.12xlarge', 'V100-32GB', 4, 48, 368, 11.1208],
  ['ecs.gn6e-c12g1.24xlarge', 'V100-32GB', 8, 96, 736, 22.2417],
  ['ecs.gn6e-c12g1.3xlarge', 'V100-32GB', 1, 12, 92, 2.7801],
  ['ecs.gn6i-c40g1.10xlarge', 'T4', 1, 40, 155, 2.0872],
  ['ecs.gn6v-c10g1.20xlarge', 'V100', 8, 82, 336, 30.9352],
  ['ecs.gn6v-c8g1.16xlarge', 'V100', 8, 64, 256, 29.8141],
  ['ecs.gn6v-c8g1.2xlarge', 'V100', 1, 8, 32, 3.7268],
  ['ecs.gn6v-c8g1.4xlarge', 'V100', 2, 16, 64, 7.4535],
  ['ecs.gn6v-c8g1.8xlarge', 'V100', 4, 32, 128, 14.907],
  ['ecs.gn7e-c16g1.16xlarge', 'A100-80GB', 4, 64, 500, 19.5728],
  ['ecs.gn7e-c16g1.32xlarge', 'A100-80GB', 8, 128, 1000, 39.1455],
  ['ecs.gn7e-c16g1.4xlarge', 'A100-80GB', 1, 16, 125, 4.8932],
  ['ecs.gn7e-c16g1.8xlarge', 'A100-80GB', 2, 32, 250, 9.7863],
  ['ecs.gn7i-2x.8xlarge', 'A10', 2, 32, 128, 2.8432],
  ['ecs.gn7i-4x.16xlarge', 'A10', 4, 64, 256, 5.6864],
  ['ecs.gn7i-4x.8xlarge', 'A10', 4, 32, 128, 5.3705],
  ['ecs.gn7i-8x.16xlarge', 'A10', 8, 64, 256, 10.741],
  ['ecs.gn7i-8x.32xlarge', 'A10', 8, 128, 512, 11.3728],
  ['ecs.gn7i-c16g1.4xlarge', 'A10', 1, 16, 60, 1.4216],
  ['ecs.gn7i-c32g1.16xlarge', 'A10', 2, 64, 376, 3.7488],
  ['ecs.gn7i-c32g1.32xlarge', 'A10', 4, 128, 752, 7.4976],
  ['ecs.gn7i-c32g1.8xlarge', 'A10', 1, 32, 188, 1.8744],
  ['ecs.gn7i-c48g1.12xlarge', 'A10', 1, 48, 310, 2.5273],
  ['ecs.gn7i-c56g1.14xlarge', 'A10', 1, 56, 346, 3.0328],
  ['ecs.gn7i-c8g1.2xlarge', 'A10', 1, 8, 30, 1.3426],
  ['ecs.vgn6i-m16-vws.5xlarge', 'T4', 1, 20, 92, 1.5752],
  ['ecs.gn5-c28g1.14xlarge', 'P100', 2, 56, 224, 5.8],
  ['ecs.gn5-c28g1.7xlarge', 'P100', 1, 28, 112, 2.9],
  ['ecs.gn5-c4g1.2xlarge', 'P100', 2, 8, 60, 3.3465],
  ['ecs.gn5-c4g1.xlarge', 'P100', 1, 4, 30, 1.6732],
  ['ecs.gn5-c8g1.14xlarge', 'P100', 8, 54, 480, 16.1225],
  ['ecs.gn5-c8g1.2xlarge', 'P100', 1, 8, 60, 2.0141],
  ['ecs.gn5-c8g1.4xlarge', 'P100', 2, 16, 120, 4.0296],
  ['ecs.gn5-c8g1.8xlarge', 'P100', 4, 32, 240, 8.0606],
  ['ecs.gn6i-c24g1.12xlarge', 'T4', 2, 48, 186, 4.3107],
  ['ecs.gn6i-c24g1.24xlarge', 'T4', 4, 96, 372, 8.6234],
  ['ecs.gn6i-c4g1.xlarge', 'T4', 1, 4, 15, 1.1303],
  ['ecs.gn6i-c8g1.2xlarge', 'T4', 1, 8, 31, 1.3183],
]

const of =
  (cloud: keyof typeof listedAt) =>
  ([name, gpu, gpus, vcpus, memoryGiB, onDemandPerHour, reservedPerHour]: Row): Instance => ({
    cloud,
    name,
    gpu,
    gpus,
    vcpus,
    memoryGiB,
    onDemandPerHour,
    ...(reservedPerHour === undefined ? {} : { reservedPerHour }),
    source: listedAt[cloud],
  })

export const instances: readonly Instance[] = [
  ...aws.map(of('aws')),
  ...gcp.map(of('gcp')),
  ...azure.map(of('azure')),
  ...alibaba.map(of('alibaba')),
]

/** @throws RangeError for a name that no cloud of the list sells */
export function findInstance(name: string): Instance {
  const found = instances.find((instance) => instance.name === name)
  if (found === undefined) throw new RangeError(`no instance '${name}' in the list`)
  return found
}
