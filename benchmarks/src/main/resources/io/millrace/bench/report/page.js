const colours = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"];
plots.forEach((plot, index) => {
  const series = [{ label: plot.x }];
  plot.series.forEach((name, i) => {
    series.push({ label: name, stroke: colours[i % colours.length], width: 2, points: { show: true, size: 6 }, spanGaps: true });
  });
  const options = {
    title: plot.title,
    width: Math.min(960, document.body.clientWidth),
    height: 320,
    scales: { x: { time: false }, y: { range: (self, low, high) => [Math.min(0, low), high * 1.05] } },
    axes: [{ label: plot.x }, {}],
    series: series,
  };
  new uPlot(options, plot.data, document.getElementById("plot" + index));
});
