/** A GPU of a fleet as a chart: its slices, the models on them, and how busy they are by hour. */
import type { EChartsOption } from 'echarts'
import { findGpu } from '../../trials/devices/catalogue.ts'
import { listMigProfiles } from '../../trials/devices/mig.ts'
import { palette } from '../document/chart-options.ts'
import { percent } from '../format.ts'
import { type PackedGpu, type Slot, wholeGpu } from './packing.ts'

/** Size of a picture, CSS pixels. */
export const pictureSize = { width: 900, height: 130 }
/** Height of a box, and the gap between two, CSS pixels. */
const boxHeight = 52
const gap = 5

/**
 * A box for each slice, as wide as its part of the GPU's memory (of its threads under MPS), filled
 * as far as the model is busy.
 * @param models in the order of their colours
 * @param headroom drawn as a line
 * @param getLoad the busy part of a model's replicas, 0-1, in each hour of the day
 */
export function createGpuOption(
  { kind, slots }: PackedGpu,
  title: string,
  models: readonly string[],
  headroom: number,
  getLoad: (model: string) => readonly number[],
): EChartsOption {
  let left = 0
  const boxes = slots.map((slot) => {
    const place = { left, width: findFraction(kind, slot) * pictureSize.width - gap }
    left += place.width + gap
    return { ...slot, place, load: slot.model === undefined ? [] : getLoad(slot.model) }
  })
  const textStyle = { fontSize: 12, color: '#333' }
  const createTextStyle = ({ width }: { readonly width: number }) => ({
    ...textStyle,
    width,
    overflow: 'truncate' as const,
  })
  return {
    title: [
      { text: title, left: 0, top: 2, padding: 0, textStyle: { fontSize: 14 } },
      ...boxes.map(({ slice, model, load, place }) => ({
        text: model ?? 'free',
        subtext: model === undefined ? slice : `${slice}, ${percent(Math.max(...load))} busy`,
        left: place.left,
        top: 26,
        padding: 0,
        itemGap: 3,
        textStyle: createTextStyle(place),
        subtextStyle: createTextStyle(place),
      })),
    ],
    grid: boxes.map(({ place }) => ({
      ...place,
      top: 60,
      height: boxHeight,
      show: true,
      outerBoundsMode: 'none' as const,
    })),
    xAxis: boxes.map((_, gridIndex) => ({
      type: 'value',
      gridIndex,
      max: 24,
      interval: 6,
      splitLine: { show: false },
      axisLabel: { ...textStyle, fontSize: 10, showMinLabel: false, showMaxLabel: false },
    })),
    yAxis: boxes.map((_, gridIndex) => ({ type: 'value', gridIndex, max: 1, show: false })),
    series: boxes.flatMap(({ model, load }, i) =>
      model === undefined
        ? []
        : [
            {
              type: 'line' as const,
              xAxisIndex: i,
              yAxisIndex: i,
              step: 'end' as const,
              symbol: 'none',
              color: palette[models.indexOf(model) % palette.length],
              lineStyle: { width: 0 },
              areaStyle: { opacity: 1 },
              data: [...load, load.at(-1)!].map((share, hour) => [hour, share]),
              markLine: {
                silent: true,
                symbol: 'none',
                label: { show: false },
                lineStyle: { color: '#333', type: 'dashed' as const },
                data: headroom > 0 ? [{ yAxis: 1 - headroom }] : [],
              },
            },
          ],
    ),
  }
}

const findFraction = (kind: string, { slice, segment }: Slot): number =>
  segment?.share ??
  (slice === wholeGpu
    ? 1
    : (listMigProfiles(findGpu(kind)).find(({ name }) => name === slice)?.memoryFraction ?? 1))
