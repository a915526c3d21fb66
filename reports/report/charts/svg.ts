/**
 * Chart options to SVG text, on the server, without a DOM. The same options render in a browser.
 */
import type { EChartsOption } from 'echarts'

/**
 * @param width, height in CSS pixels.
 * The charting library is loaded on first use: it takes long.
 */
export async function renderSvg(option: EChartsOption, width = 900, height = 420): Promise<string> {
  const [{ init, use }, charts, components, { SVGRenderer }] = await Promise.all([
    import('echarts/core'),
    import('echarts/charts'),
    import('echarts/components'),
    import('echarts/renderers'),
  ])
  use([
    charts.LineChart,
    charts.ScatterChart,
    components.GridComponent,
    components.LegendComponent,
    components.MarkLineComponent,
    components.MarkAreaComponent,
    components.TitleComponent,
    SVGRenderer,
  ])
  const chart = init(null, null, { renderer: 'svg', ssr: true, width, height })
  try {
    chart.setOption({ animation: false, backgroundColor: '#fff', ...option })
    return chart.renderToSVGString()
  } finally {
    // Undisposed, its timer keeps the process alive.
    chart.dispose()
  }
}
