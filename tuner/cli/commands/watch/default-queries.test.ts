import { expect, test } from 'vitest'
import { buildDefaultQueries, fillQuery, monitoredServers } from './default-queries.ts'

const asked = { windowS: 300, selector: 'namespace="shop"', percentile: 0.99 }

test('every server has a query for its rate, and one for its percentile', () => {
  for (const server of monitoredServers) {
    const { rate, latency } = buildDefaultQueries(server, 'e2e')
    expect(rate, server).toBeDefined()
    expect(latency, server).toBeDefined()
  }
})

test('window, labels and percentile are filled in wherever they stand', () => {
  for (const selector of ['', asked.selector])
    for (const server of monitoredServers)
      for (const query of Object.values(buildDefaultQueries(server, 'e2e'))) {
        const filled = fillQuery(query, { ...asked, selector })
        expect(filled).not.toMatch(/\$|,\s*}|{,/)
        expect(filled.includes(selector)).toBe(true)
      }
  expect(fillQuery(buildDefaultQueries('vllm', 'ttft').latency!, asked)).toBe(
    'histogram_quantile(0.99, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket{namespace="shop"}[300s]))) * 1000',
  )
  expect(
    fillQuery(buildDefaultQueries('builtin', 'e2e').errors!, { ...asked, selector: '' }),
  ).toContain('{status=~"5.."}[300s]')
})
