// Numbers as people read them.
export function bytesText(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let [value, unit] = [bytes, 0];
  while (value >= 1024 && unit + 1 < units.length) [value, unit] = [value / 1024, unit + 1];
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

export function secondsText(seconds) {
  const units = [['s', 1], ['ms', 1e-3], ['us', 1e-6], ['ns', 1e-9]];
  const [name, size] = units.find(([, unit]) => seconds >= unit) ?? units.at(-1);
  return `${(seconds / size).toFixed(1)} ${name}`;
}

export function numberText(value) {
  if (!Number.isFinite(value)) return '-';
  const size = Math.abs(value);
  if (size >= 1e4 || (size > 0 && size < 1e-3)) {
    for (const [unit, by] of [['G', 1e9], ['M', 1e6], ['k', 1e3]]) {
      if (size >= by && size < 1e12) return `${Number((value / by).toPrecision(3))}${unit}`;
    }
    return value.toExponential(2);
  }
  return String(Number(value.toPrecision(4)));
}

export function timeText(ms) {
  return new Date(ms).toTimeString().slice(0, 8);
}
