/**
 * How much slower a model gets beside neighbours under MPS. One factor stands for all neighbours:
 * the slowdown for each whole GPU that they take, in the linear form of iGniter (Xu et al., TPDS
 * 2022). It is the mean of 24 pairs plus two standard deviations: about one pair in forty is worse.
 *
 * Four pairs are two replicas of AlexNet, ResNet-50, VGG-19 or SSD on halves of a V100, published
 * with iGniter (icloud-ecnu/igniter, Algorithm/config: activetime_2 / activetime_1). Twenty are
 * BERT-base on an H200 and an H100, measured for this project with texts of 128 tokens in fp16, the
 * last two in fp32 (`trials/devices/tables/*-neighbours.csv`): a small batch beside a large one
 * suffers most.
 */
import { mean, standardDeviation } from 'simple-statistics'

/** Latency of a batch alone and beside the neighbour, and the share that the neighbour takes. */
type Pair = readonly [aloneMs: number, besideMs: number, neighbourShare: number]

const onV100: readonly Pair[] = [
  [3.6834, 3.8653, 0.5],
  [20.2699, 21.2965, 0.5],
  [52.0246, 58.5846, 0.5],
  [81.3991, 89.0054, 0.5],
]
const onH200: readonly Pair[] = [
  [0.563, 0.692, 0.5],
  [1.088, 1.333, 0.5],
  [3.207, 3.985, 0.5],
  [1.088, 1.485, 0.5],
  [3.207, 3.576, 0.5],
  [0.563, 0.74, 0.5],
  [3.207, 3.555, 0.5],
  [1.807, 1.944, 0.5],
  [1.088, 1.169, 0.25],
]
const onH100: readonly Pair[] = [
  [0.564, 0.697, 0.5],
  [1.073, 1.314, 0.5],
  [3.159, 4.112, 0.5],
  [1.073, 1.541, 0.5],
  [3.159, 3.631, 0.5],
  [0.564, 0.778, 0.5],
  [3.159, 3.564, 0.5],
  [1.757, 1.95, 0.5],
  [1.073, 1.187, 0.25],
  [38.196, 39.004, 0.5],
  [10.907, 11.575, 0.5],
]
const slowdowns = [...onV100, ...onH200, ...onH100].map(
  ([aloneMs, besideMs, neighbourShare]) => (besideMs / aloneMs - 1) / neighbourShare,
)

/** Relative slowdown for each whole GPU that neighbours take. */
export const slowdownPerGpu = mean(slowdowns) + 2 * standardDeviation(slowdowns)

/**
 * Latency beside neighbours over that alone, for a replica on a share of the threads, 0-1.
 * Neighbours count as taking all that it leaves.
 */
export const slowdownBesideNeighbours = (share: number): number => 1 + slowdownPerGpu * (1 - share)
