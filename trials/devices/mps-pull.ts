/**
 * How much slower a model gets under MPS for each whole GPU that its neighbours take, at their busiest. Two of one model on halves of a V100, latency beside over alone, of AlexNet,
 * ResNet-50, VGG-19 and SSD, as published with iGniter (Xu et al., TPDS 2022; icloud-ecnu/igniter, Algorithm/config: activetime_2 / activetime_1); no other pair is public there.
 */
import { mean, standardDeviation } from 'simple-statistics'

const published = [3.8653 / 3.6834, 21.2965 / 20.2699, 58.5846 / 52.0246, 89.0054 / 81.3991]
const pulls = published.map((slowdown) => (slowdown - 1) / 0.5)

export const mpsPull = { mean: mean(pulls), deviation: standardDeviation(pulls) } as const
