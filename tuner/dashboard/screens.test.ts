/** The page on screens and paper, and at its addresses, in a real browser. */
import { expect, test } from 'vitest'
import { describeInChromium } from './in-chromium.contract.ts'

describeInChromium('the dashboard on screens, on paper and at its addresses', (its) => {
  test('the address is the question: another page at it shows the same', async () => {
    await its.page.locator('#slo-limit').fill('15')
    await its.expectVerdict('batch 8')
    await its.page.getByText('Prices', { exact: true }).click()
    await its.page.locator('#price-T4').fill('0.3')
    await its.page.locator('#demand').fill('2000')
    await its.expectVerdict('replicas for 2,000 req/s')
    await its.page.locator('#compare-with').selectOption('older-0001')
    await its.page.getByRole('heading', { name: 'Measured in both' }).waitFor()
    await its.page.getByRole('button', { name: 'Open trial 2' }).click()
    await expect.poll(() => its.page.url()).toContain('trial=2')
    const address = new URL(its.page.url()).search
    expect(address).toBe(
      '?experiment=bert-7f3a&slo=15&objective=price-for-demand&demand=2000&headroom=0.2&price.T4=0.3&trial=2&compare=older-0001',
    )

    const other = await its.newPage()
    await its.open(other, its.base + address)
    for (const place of ['#verdict', '#decide .note', '#capacity .plan', '#trial-title'])
      expect(await other.locator(place).textContent(), place).toBe(
        await its.page.locator(place).textContent(),
      )
    expect(await other.locator('#price-T4').inputValue()).toBe('0.3')
    await other.getByRole('heading', { name: 'Measured in both' }).waitFor()
    await other.getByRole('button', { name: 'Close' }).click()
    await other.getByRole('button', { name: 'Reset' }).click()
    await expect.poll(() => new URL(other.url()).search).not.toMatch(/slo|price|trial/)
    await its.open(other, `${its.base}?slo=fast&trial=99&compare=nothing`)
    await other.getByRole('alert').waitFor()
    await other.close()
  })

  test('an address that leads nowhere is a page that leads on', async () => {
    const lost = await its.newPage()
    for (const address of ['?experiment=gone', 'no/such/page']) {
      expect((await lost.goto(its.base + address))?.status()).toBe(404)
      expect(await lost.locator('h1').textContent()).toMatch(/^There is no /)
      expect(await lost.locator('img').count()).toBe(0)
    }
    await lost.getByRole('link', { name: 'bert-7f3a' }).click()
    await lost.locator('#verdict', { hasText: 'batch 32' }).waitFor()
    await lost.close()
    // The browser itself says that a page was not found.
    expect(its.problems.splice(0).every((text) => text.includes('404'))).toBe(true)
  })

  test.each([1440, 390])(
    'fits a screen of %d px, with a way to every section and the SLO in sight',
    async (width) => {
      await its.page.setViewportSize({ width, height: 844 })
      // Charts are drawn anew a moment after the page became narrower.
      await expect
        .poll(() => its.page.evaluate('document.documentElement.scrollWidth'), { timeout: 30_000 })
        .toBeLessThanOrEqual(width)
      expect(await its.page.locator('.top nav a').first().isVisible()).toBe(true)
      await its.page.locator('#pareto .chart').scrollIntoViewIfNeeded()
      for (const limit of ['50', '85', '9']) {
        await its.page.locator('#slo-limit').fill(limit)
        await its.page.locator('.slo-label', { hasText: `${limit} ms` }).waitFor()
        const { x, width: long } = (await its.page.locator('.slo-label').boundingBox())!
        expect(x, limit).toBeGreaterThanOrEqual(0)
        expect(x + long, limit).toBeLessThanOrEqual(width)
      }
    },
  )

  test('is readable in the dark', async () => {
    const ground = () => its.page.evaluate('getComputedStyle(document.body).backgroundColor')
    const light = await ground()
    await its.page.getByRole('button', { name: 'Switch between dark and light' }).click()
    expect(await ground()).not.toBe(light)
  })

  test('prints as one report: charts that were never scrolled to, every trial, what is one click away, and nothing to press', async () => {
    await its.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    await its.page.emulateMedia({ media: 'print', colorScheme: 'dark' })
    expect(await its.page.evaluate('getComputedStyle(document.body).color')).toBe('rgb(0, 0, 0)')
    const figures =
      (await its.page.evaluate(`[...document.querySelectorAll('main figure.chart')].filter((f) => f.checkVisibility()).map((f) => {
        const canvas = f.querySelector('.paper canvas')
        const pixels = canvas ? canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data : []
        return { name: f.getAttribute('aria-label'), drawn: pixels.some((v) => v > 0), width: canvas?.getBoundingClientRect().right }
      })`)) as { name: string; drawn: boolean; width: number }[]
    expect(figures.length).toBeGreaterThanOrEqual(9)
    expect(figures.filter((f) => !f.drawn || f.width > 1280)).toEqual([])
    expect(await its.page.locator('#trials tbody tr:not(.spacer)').count()).toBe(7)
    expect(await its.page.locator('.caveats').isVisible()).toBe(true)
    expect(await its.page.locator('.paper-only').textContent()).toContain('bert-7f3a')
    for (const gone of [
      '.whatif',
      '.top nav',
      '#compare',
      '#reset',
      '.save',
      'select',
      '.actions',
      '.annotation input',
      '.pick',
    ])
      expect(await its.page.locator(gone).first().isVisible(), gone).toBe(false)
    await its.page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(await its.page.locator('.paper canvas').count()).toBe(0)
    expect(await its.page.locator('.more[open]').count()).toBe(0)
    const pdf = (await its.page.pdf({ format: 'A4' })).toString('latin1')
    expect(pdf.match(/\/Type \/Page\n/g)?.length).toBeLessThanOrEqual(8)
  })

  test('the recommended trial opens with its chart filled, at once', async () => {
    await its.page.locator('#trials tbody tr:not(.spacer) .link').first().click()
    expect(await its.page.locator('dialog .outcome').textContent()).toContain('Best found')
    const drawn = () =>
      its.page.evaluate(`(() => {
          const canvas = document.querySelector('dialog .canvas canvas')
          return canvas ? canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((v) => v > 0) : false
        })()`)
    await expect.poll(drawn).toBe(true)
    const box = (await its.page.locator('dialog .canvas').boundingBox())!
    expect(box.y + box.height).toBeLessThan(1000)
  })
})
