// chart.h: one line chart as SVG, N on a logarithmic axis and a share of 0 to 1 against it, readable on light and dark.
//
// Example: draw_chart("docs/bound.svg", {{"f32", 0, false, {{2, 0.9}, {4, 0.8}}}});
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace attest::bench {

struct Curve {
  std::string label;
  int color;    // index of a colour
  bool dashed;
  std::vector<std::pair<int64_t, double>> points;  // N, share
};

inline std::string chart_of(const std::vector<Curve>& curves) {
  constexpr int kWidth = 720, kHeight = 400, kLeft = 56, kRight = 190, kTop = 16, kBottom = 48;
  // Okabe and Ito's palette: told apart by everyone, and away from both black and white.
  constexpr const char* kColors[] = {"#0072B2", "#D55E00", "#009E73"};
  const double last = std::log2(static_cast<double>(curves.at(0).points.back().first));
  const auto x_of = [&](int64_t n) { return kLeft + (kWidth - kLeft - kRight) * (std::log2(static_cast<double>(n)) - 1) / (last - 1); };
  const auto y_of = [&](double share) { return kHeight - kBottom - (kHeight - kTop - kBottom) * share; };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<style>.ink{{fill:#24292f}}.axis{{stroke:#24292f}}.grid{{stroke:#8c959f;stroke-opacity:.35}}"
      "@media(prefers-color-scheme:dark){{.ink{{fill:#d0d7de}}.axis{{stroke:#d0d7de}}}}</style>\n"
      "<title>Error over bound against the number of keys</title>\n", kWidth, kHeight);
  for (int tenth = 0; tenth <= 10; tenth += 2) {
    const double y = y_of(tenth / 10.0);
    svg += fmt::format("<line class=\"{}\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text class=\"ink\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.1f}</text>\n",
                       tenth == 0 ? "axis" : "grid", kLeft, kWidth - kRight, y, y, kLeft - 8, y + 4, tenth / 10.0);
  }
  for (const auto& [n, share] : curves[0].points)
    svg += fmt::format("<text class=\"ink\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x_of(n), kHeight - kBottom + 18, n);
  svg += fmt::format("<text class=\"ink\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">keys N</text>\n<text class=\"ink\" transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">error / bound</text>\n",
                     (kLeft + kWidth - kRight) / 2, kHeight - 8, (kTop + kHeight - kBottom) / 2);
  int line = 0;
  for (const Curve& c : curves) {
    std::string points;
    for (const auto& [n, share] : c.points) points += fmt::format("{:.1f},{:.1f} ", x_of(n), y_of(share));
    const std::string style = fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}", kColors[c.color % 3], c.dashed ? " stroke-dasharray=\"5 4\"" : "");
    const int y = kTop + 14 + 22 * line++;
    svg += fmt::format("<polyline {} points=\"{}\"/>\n<line {} x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/><text class=\"ink\" x=\"{}\" y=\"{}\">{}</text>\n",
                       style, points, style, kWidth - kRight + 14, kWidth - kRight + 42, y, y, kWidth - kRight + 50, y + 4, c.label);
  }
  return svg + "</svg>\n";
}

inline bool draw_chart(const std::string& path, const std::vector<Curve>& curves) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  const std::string svg = chart_of(curves);
  const bool whole = std::fwrite(svg.data(), 1, svg.size(), file) == svg.size();
  return std::fclose(file) == 0 && whole;
}

}  // namespace attest::bench
