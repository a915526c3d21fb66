/**
 * How much slower a model gets under MPS for each whole GPU that its neighbours take, at their
 * busiest: latency beside over alone at the same share. On a V100, two of one model on halves,
 * AlexNet, ResNet-50, VGG-19 and SSD, as published with iGniter (Xu et al., TPDS 2022;
 * icloud-ecnu/igniter, Algorithm/config: activetime_2 / activetime_1). On an H200 and an H100,
 * BERT-base on texts of 128 tokens in fp16, and there in fp32 (the last two), by batch and
 * neighbour, as measured for this project (`tables/*-neighbours.csv`): a small batch beside a large
 * one suffers most.
 */
import { mean, standardDeviation } from 'simple-statistics'

/** A pair: latency alone and beside, ms, and the share that the neighbour takes. */
type Pair = readonly [aloneMs: number, besideMs: number, othersShare: number]

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
const pulls = [...onV100, ...onH200, ...onH100].map(
  ([aloneMs, besideMs, othersShare]) => (besideMs / aloneMs - 1) / othersShare,
)

export const mpsPull = { mean: mean(pulls), deviation: standardDeviation(pulls) } as const
